"""What a plan is made from: the request, what is refused, when chains stream, prices."""
