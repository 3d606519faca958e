"""The API's messages as data: which fields a request has and of what kind each is.

A kind is a scalar (`string`, `bytes`, `bool`, `int32`, `int64`, `double`), `struct` (a JSON object of the user's),
`value` (any JSON of the user's), an enumeration of `ENUMS`, a message of `MESSAGES`, `=Message` (an object that
nothing here looks into) or `{Message` (a map from names to messages). A list is marked by `*`. The fields are
those of google-genai's types and of recorded requests; a test holds them against both.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

ENUMS: dict[str, frozenset[str]] = {
    "FunctionCallingConfig.Mode": frozenset(("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")),
    "ThinkingConfig.ThinkingLevel": frozenset(
        ("THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")
    ),
    "Type": frozenset(
        ("TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
    ),
}  # fmt: skip

# The parts of a message of which only one may be set.
ONEOF = {
    "Part": (
        "data",
        frozenset(
            ("text", "inlineData", "functionCall", "functionResponse", "fileData", "executableCode",
             "codeExecutionResult", "toolCall", "toolResponse")
        ),
    )
}  # fmt: skip

_CONFIG = """
    audioTimestamp:bool audioTranscriptionConfig:=AudioTranscriptionConfig candidateCount:int32
    enableAffectiveDialog:bool enableEnhancedCivicAnswers:bool frequencyPenalty:double imageConfig:=ImageConfig
    logprobs:int32 maxOutputTokens:int32 mediaResolution:string modelSelectionConfig:=ModelSelectionConfig
    presencePenalty:double responseFormat:value responseJsonSchema:value _responseJsonSchema:value
    responseLogprobs:bool responseMimeType:string responseModalities:*string responseSchema:Schema
    routingConfig:=RoutingConfig seed:int32 speechConfig:=SpeechConfig stopSequences:*string temperature:double
    thinkingConfig:ThinkingConfig topK:double topP:double translationConfig:=TranslationConfig
"""
_MESSAGES = {
    "GenerateContentRequest": """
        cachedContent:string contents:*Content continuationToken:string generationConfig:GenerationConfig
        labels:struct model:string modelArmorConfig:=ModelArmorConfig outputConfig:=OutputConfig
        safetySettings:*SafetySetting serviceTier:string store:bool systemInstruction:Content toolConfig:ToolConfig
        tools:*Tool
    """,
    # The Developer API takes contents or a whole request; Vertex AI the request's fields themselves.
    "CountTokensRequest": """
        contents:*Content generateContentRequest:GenerateContentRequest generationConfig:GenerationConfig
        instances:value model:string systemInstruction:Content tools:*Tool
    """,
    "Content": "parts:*Part role:string",
    "Part": """
        audioMetadata:=AudioMetadata audioTranscription:=AudioTranscription
        codeExecutionResult:=CodeExecutionResult documentMetadata:=DocumentMetadata executableCode:=ExecutableCode
        fileData:FileData functionCall:FunctionCall functionResponse:FunctionResponse inlineData:Blob
        mediaProcessing:=MediaProcessing mediaResolution:=MediaResolution partMetadata:struct
        speechMetadata:=SpeechMetadata spreadsheetMetadata:=SpreadsheetMetadata text:string thought:bool
        thoughtSignature:bytes toolCall:=ToolCall toolResponse:=ToolResponse videoMetadata:=VideoMetadata
    """,
    # A signature in here is no field of the API's: it is let through for the judge of histories to name.
    "FunctionCall": "args:struct id:string name:string partialArgs:value thoughtSignature:value willContinue:bool",
    "FunctionResponse": """
        id:string name:string parts:*FunctionResponsePart response:struct scheduling:string willContinue:bool
    """,
    "FunctionResponsePart": """
        audioMetadata:=AudioMetadata documentMetadata:=DocumentMetadata fileData:FileData inlineData:Blob
        mediaProcessing:=MediaProcessing mediaResolution:=MediaResolution spreadsheetMetadata:=SpreadsheetMetadata
        videoMetadata:=VideoMetadata
    """,
    "Blob": "data:string displayName:string mimeType:string",
    "FileData": "displayName:string fileUri:string mimeType:string",
    "Tool": """
        codeExecution:=CodeExecution computerUse:=ComputerUse enterpriseWebSearch:=EnterpriseWebSearch
        exaAiSearch:=ExaAiSearch fileSearch:=FileSearch functionDeclarations:*FunctionDeclaration
        googleMaps:=GoogleMaps googleSearch:=GoogleSearch googleSearchRetrieval:=GoogleSearchRetrieval
        mcpServers:*=McpServer parallelAiSearch:=ParallelAiSearch retrieval:=Retrieval urlContext:=UrlContext
    """,
    "FunctionDeclaration": """
        behavior:string description:string name:string parameters:Schema parametersJsonSchema:value
        response:Schema responseJsonSchema:value
    """,
    "Schema": """
        additionalProperties:value allOf:*Schema anyOf:*Schema default:value defs:{Schema description:string
        enum:*string example:value format:string items:Schema maxItems:int64 maxLength:int64 maxProperties:int64
        maximum:double minItems:int64 minLength:int64 minProperties:int64 minimum:double nullable:bool
        pattern:string properties:{Schema propertyOrdering:*string ref:string required:*string title:string
        type:Type
    """,
    "ToolConfig": """
        functionCallingConfig:FunctionCallingConfig includeServerSideToolInvocations:bool
        retrievalConfig:=RetrievalConfig
    """,
    "FunctionCallingConfig": """
        allowedFunctionNames:*string mode:FunctionCallingConfig.Mode streamFunctionCallArguments:bool
    """,
    "GenerationConfig": _CONFIG,
    "ThinkingConfig": """
        includeThoughts:bool thinkingBudget:int32 thinkingLevel:ThinkingConfig.ThinkingLevel
    """,
    "SafetySetting": "category:string method:string threshold:string",
}


@dataclass(frozen=True)
class Field:
    """One field: its name in both spellings, its kind, and whether it is a list."""

    name: str
    snake: str
    kind: str
    repeated: bool


def snake(name: str) -> str:
    """Return a field's name as error messages spell it."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


@functools.cache
def of(message: str) -> Mapping[str, Field]:
    """Return a message's fields by either spelling of their names."""
    found = {}
    for entry in _MESSAGES[message].split():
        name, _, kind = entry.partition(":")
        field = Field(name, snake(name), kind.removeprefix("*"), kind.startswith("*"))
        found[field.name] = found[field.snake] = field
    return found


def is_message(kind: str) -> bool:
    """Tell whether a kind is a message whose fields are known."""
    return kind in _MESSAGES
