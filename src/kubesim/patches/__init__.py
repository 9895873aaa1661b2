"""Ways to say how an object should change: the object and the patch in, the new object out."""
