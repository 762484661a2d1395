"""`paoswarm explore`: a local web page that shows what a swarm does and how a stored run goes."""
