"""gemlab: measure what an agent on Gemini loses with its thought signatures, and which guards stop its loops."""
