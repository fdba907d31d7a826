"""What the binary is made of besides our crates: licences, their texts, and a bill of materials (CycloneDX). scripts/package calls it.

third_party.py TRIPLE FOLDER writes THIRD-PARTY.txt and sbom.cdx.json. A licence that is not known here is an error.
"""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Of an expression, enough of these must be there: permissive licences whose terms a copy of their text meets.
KNOWN = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0",
    "Unicode-3.0", "Unlicense", "Zlib",
}
# Of crates whose manifest has a text instead of a name.
NAMED = {"cobyla": "MIT"}
TEXTS = ("LICEN", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT")


def allowed(expression):
    """Does an SPDX expression hold if just the known licences may be chosen?"""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    tokens = re.sub(r"(\S+) WITH (\S+)", r"\1_WITH_\2", " ".join(tokens)).split()

    def any_of():
        found = all_of()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            found = all_of() or found
        return found

    def all_of():
        found = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            found = one() and found
        return found

    def one():
        token = tokens.pop(0)
        if token != "(":
            return token.replace("_", " ") in KNOWN
        found = any_of()
        tokens.pop(0)
        return found

    return any_of()


def cargo(*words):
    return subprocess.run(["cargo", *words, "--locked"], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def packages(triple):
    """Crates of the binary, ours and others', by name and version."""
    all_ = {(it["name"], it["version"]): it for it in json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", triple))["packages"]}
    # Without those that only build scripts and macros need: nothing of them is in the binary.
    tree = cargo("tree", "-p", "pktgen-cli", "-e", "normal,no-proc-macro", "--target", triple, "--prefix", "none", "--format", "{p}")
    names = {tuple(re.match(r"(\S+) v(\S+)", line).groups()) for line in tree.splitlines() if line}
    found = [all_[key] for key in sorted(names)]
    for package in found:
        package["license"] = package["license"] or NAMED.get(package["name"])
    return found


def texts(package):
    folder = Path(package["manifest_path"]).parent
    # Code of others within a crate (C of zstd and mimalloc, Unicode's tables) has its licence some folders below.
    found = [path for depth in range(4) for path in folder.glob("*/" * depth + "*")]
    return sorted(path for path in found if path.is_file() and path.suffix not in (".rs", ".c", ".h") and path.name.upper().startswith(TEXTS))


def third_party(others):
    """Names with licences, then each text once."""
    out = ["What pktgen contains besides its own code: the standard library of Rust (MIT OR Apache-2.0), and these crates.\n"]
    shown, parts = {}, []
    for package in others:
        files = texts(package)
        numbers = []
        for path in files:
            text = path.read_text(errors="replace").strip()
            key = hashlib.sha256(text.encode()).hexdigest()
            if key not in shown:
                shown[key] = len(shown) + 1
                parts.append(f"\n[{shown[key]}] {package['name']} {package['version']}, {path.relative_to(Path(package['manifest_path']).parent)}\n\n{text}\n")
            numbers.append(str(shown[key]))
        where = f"texts {', '.join(numbers)}" if numbers else "no text in the crate"
        out.append(f"{package['name']} {package['version']}: {package['license']}; {where}")
    return "\n".join(out) + "\n" + "".join(parts)


def bill(others, version):
    """CycloneDX 1.5, without times and serial numbers: equal for equal dependencies."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(it["name"], it["version"]): it.get("checksum") for it in lock}

    def component(package):
        key = package["name"], package["version"]
        purl = f"pkg:cargo/{key[0]}@{key[1]}"
        return {
            "type": "library", "bom-ref": purl, "name": key[0], "version": key[1], "purl": purl,
            "licenses": [{"expression": package["license"].replace("/", " OR ")}],
            "hashes": [{"alg": "SHA-256", "content": sums[key]}] if sums.get(key) else [],
        }

    own = {"type": "application", "bom-ref": f"pkg:generic/pktgen@{version}", "name": "pktgen", "version": version}
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": own},
        "components": [component(package) for package in others],
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [f"pkg:cargo/{it['name']}@{it['version']}" for it in others]}],
    }


def main():
    triple, folder = sys.argv[1], Path(sys.argv[2])
    others = [package for package in packages(triple) if package["source"]]
    bad = [f"{it['name']} {it['version']}: {it['license']}" for it in others if not it["license"] or not allowed(it["license"])]
    if bad:
        raise SystemExit("third_party: licences that are not known (scripts/third_party.py: KNOWN):\n" + "\n".join(bad))
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "THIRD-PARTY.txt").write_text(third_party(others))
    (folder / "sbom.cdx.json").write_text(json.dumps(bill(others, version), indent=1) + "\n")
    print(f"{len(others)} crates, licences known: {folder / 'THIRD-PARTY.txt'}, {folder / 'sbom.cdx.json'}")


if __name__ == "__main__":
    main()
