// yaml.jsonl: a YAML document and Python's repr of what OmegaConf reads from it.

#include "runner/parent/config/yaml_reader.h"
#include "tests/cases_runner/formats.h"
#include "tests/support/python_repr.h"

namespace {

/// Returns why Retort rejects what Hydra accepts; empty if there is no known reason.
std::string reason_to_refuse_yaml(const std::string& yaml, const runner::Diagnostics& errors) {
  const runner::ErrorCode code = errors.front().code;
  const bool is_python_type =
      yaml.find("!!binary") != yaml.npos || yaml.find("!!omap") != yaml.npos;
  if (code == runner::ErrorCode::kUnknownTag && is_python_type)
    return "tags for Python's own types are rejected";
  if (code == runner::ErrorCode::kDuplicateKey)
    return "keys that look alike, such as 1 and '1', are the same key";
  return "";
}

}  // namespace

Verdict check_yaml(const nlohmann::ordered_json& recorded, const std::filesystem::path&) {
  const std::string yaml = recorded["yaml"];
  runner::Sources sources;
  const auto read = runner::read_yaml(sources.add("a.yaml", yaml));
  // A recipe is a mapping; a scalar is rejected where the file is used.
  const bool is_scalar = read && !read->map() && !read->list();
  if (read && is_scalar)
    return Verdict::known_difference("a document that is a single scalar is not a mapping");
  if (!read && !recorded["ok"]) return Verdict::same();
  if (!read) {
    const std::string reason = reason_to_refuse_yaml(yaml, read.errors());
    if (!reason.empty()) return Verdict::known_difference(reason);
    return Verdict::different(yaml + ": rejected: " + read.errors().front().message);
  }
  if (!recorded["ok"]) return Verdict::different(yaml + ": should be rejected");
  const std::string repr = runner::python_repr(*read);
  if (repr == recorded["repr"]) return Verdict::same();
  return Verdict::different(yaml + ": reads as " + repr + ", not as " +
                            recorded["repr"].get<std::string>());
}
