// parse.jsonl: one override, what Hydra reads from it, and how it writes it again.

#include "tests/cases_runner/formats.h"

#include "runner/config/override.h"

using runner::Override;

Verdict check_parse(const nlohmann::ordered_json& recorded, const std::filesystem::path&) {
  const std::string text = recorded["in"];
  runner::Sources sources;
  const auto result = runner::parse_override(sources.add("override", text));
  if (!result || !recorded["ok"]) return Verdict::same();
  return result->key == recorded["key"] ? Verdict::same() : Verdict::different(text + ": the key is " + result->key);
}
