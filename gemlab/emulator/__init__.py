"""An embedded Gemini API: it sees the request and nothing else, and never learns what is being compared."""
