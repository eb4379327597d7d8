"""Why a raw row gave no document, or was changed on its way in: the words of the balance and of bad_rows.jsonl."""

# faults: counted towards the limit of bad rows, listed with file, row and byte offset
NOT_JSON = "not-json"
NOT_AN_OBJECT = "not-an-object"
FIELD_MISSING = "field-missing"
NOT_A_STRING = "not-a-string"
NULL = "null"
INVALID_UTF8 = "invalid-utf8"
ROW_TOO_LONG = "row-too-long"

# notes: a rule was applied, nothing is wrong
BLANK = "blank"
EMPTY = "empty"
LONE_SURROGATE = "lone-surrogate"
BYTE_ORDER_MARK = "byte-order-mark"
