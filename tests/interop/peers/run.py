"""python run.py FORMAT, in the environment that scripts/peers made for the format: a JSON list of requests on standard
input, each {"do": "read" or "write", ...}, answered by the list of their answers as the last line of output."""

import importlib
import json
import sys
import warnings

from stand_ins import stand_in

# what each peer imports and does not need for its files
NOT_NEEDED = {
    "mds": (
        *("transformers", "boto3", "botocore", "google", "oci", "azure", "matplotlib", "paramiko", "torchvision"),
        *("streaming.vision", "streaming.text", "streaming.multimodal"),
    ),
    "litdata": ("boto3", "botocore", "requests", "obstore", "tifffile", "torchvision", "urllib3"),
    "nanotron": ("huggingface_hub", "tokenizers"),
    "megatron": (),
    "olmo": (
        *("google", "boto3", "botocore", "huggingface_hub", "cached_path"),
        *("dolma.core", "dolma.taggers", "dolma.tokenizer.tokenizer", "dolma.tokenizer.executor"),
    ),
}


def main() -> None:
    name = sys.argv[1]
    warnings.simplefilter("ignore")
    stand_in(*NOT_NEEDED[name])
    peer = importlib.import_module(f"peer_{name}")
    answers = [getattr(peer, request["do"])(request) for request in json.load(sys.stdin)]
    sys.stdout.write("\n" + json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
