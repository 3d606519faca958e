"""Google's error bodies, in their key order: code, message, status, details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..wire.rules import Finding

STATUS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
INTERNAL = (
    "An internal error has occurred. Please retry or report in "
    "https://developers.generativeai.google/guide/troubleshooting"
)
OVERLOADED = (
    "This model is currently experiencing high demand. Spikes in demand are usually temporary. Please try again later."
)

# How many violations one answer lists: the API's own limit is not known, but a body of megabytes must have one.
MOST_LISTED = 100


class ApiError(Exception):
    """An answer other than 200; `rule` names the rule of a history that was broken, if one was."""

    rule = ""

    def __init__(self, code: int, message: str, details: Sequence[dict[str, Any]] = ()):
        super().__init__(message)
        self.code, self.message, self.details = code, message, list(details)

    def body(self) -> dict[str, Any]:
        """Return the JSON body."""
        error = {"code": self.code, "message": self.message, "status": STATUS.get(self.code, "UNKNOWN")}
        if self.details:
            error["details"] = self.details
        return {"error": error}


class UnknownModel(ApiError):
    """The 404 for a model."""


def exhausted(model: str, seconds: float) -> ApiError:
    """Return the 429 of a used-up quota that asks to wait; retryDelay is the floor of the message's seconds."""
    metric = "generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count"
    message = (
        "You exceeded your current quota, please check your plan and billing details. For more information on this "
        "error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. To monitor your current usage, head to: "
        f"https://ai.dev/rate-limit. \n* Quota exceeded for metric: {metric}, limit: 1000000, model: {model}\n"
        f"Please retry in {seconds}s."
    )
    link = {
        "description": "Learn more about Gemini API quotas",
        "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
    }
    violation = {
        "quotaMetric": metric,
        "quotaId": "GenerateContentPaidTierInputTokensPerModelPerMinute",
        "quotaDimensions": {"model": model, "location": "global"},
        "quotaValue": "1000000",
    }
    return ApiError(
        429,
        message,
        [
            {"@type": "type.googleapis.com/google.rpc.Help", "links": [link]},
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{int(seconds)}s"},
        ],
    )


def bad_request(violations: Sequence[tuple[str, str]]) -> ApiError:
    """Return the 400 of the JSON parser: (field, description) each, descriptions joined in the message."""
    detail = {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [
            {"field": field, "description": text} if field else {"description": text} for field, text in violations
        ],
    }
    return ApiError(400, "\n".join(text for _, text in violations), [detail])


def refused(findings: Sequence[Finding]) -> ApiError:
    """Return the 400 for findings of `rules.refusal`."""
    error = _refused(findings[:MOST_LISTED])
    error.rule = findings[0].rule
    return error


def _refused(findings: Sequence[Finding]) -> ApiError:
    if findings[0].rule in ("base64", "inside_call"):
        fields = {"base64": "{}.thought_signature", "inside_call": "{}.function_call"}
        return bad_request([(fields[f.rule].format(f.where), f.message) for f in findings])
    if findings[0].rule in ("empty_parts", "no_data", "empty_name"):
        return ApiError(400, "".join(f.message for f in findings))
    return ApiError(400, findings[0].message)


def not_found(model: str, version: str, method: str) -> ApiError:
    """Return the 404 for a model that is unknown, or unknown under this API version."""
    return UnknownModel(
        404,
        f"models/{model} is not found for API version {version}, or is not supported for {method}. "
        "Call ModelService.ListModels to see the list of available models and their supported methods.",
    )
