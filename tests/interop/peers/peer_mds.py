"""mosaicml-streaming: its dataset reads a column of a folder, its writer writes one."""

from typing import Any

import numpy as np
from streaming import MDSWriter, StreamingDataset


def read(request: dict[str, Any]) -> list[list[int]]:
    """The column `column` of every sample of `folder`; bytes are ids of `dtype`."""
    dataset = StreamingDataset(local=request["folder"], shuffle=False, batch_size=1)
    samples = [dataset[i][request["column"]] for i in range(len(dataset))]
    assert [np.asarray(x[request["column"]]).tolist() for x in dataset] == [np.asarray(s).tolist() for s in samples]
    return [np.frombuffer(s, request["dtype"]).tolist() if isinstance(s, bytes) else s.tolist() for s in samples]


def write(request: dict[str, Any]) -> None:
    """`documents` as the column `column` of encoding `encoding`, with MDSWriter's other `options`."""
    column, encoding = request["column"], request["encoding"]
    with MDSWriter(out=request["folder"], columns={column: encoding}, **request["options"]) as out:
        for document in request["documents"]:
            ids = np.array(document, request["dtype"])
            out.write({column: ids.tobytes() if encoding == "bytes" else ids})
