"""What lint finds in sources: of released bugs, and in libraries as they are now."""
