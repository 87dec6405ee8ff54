// interp.jsonl: a value `x` beside the keys of interp_base.yaml, and what OmegaConf resolves it to.

#include <fstream>
#include <map>
#include <sstream>

#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/interpolation.h"
#include "runner/parent/config/yaml_reader.h"
#include "tests/cases_runner/formats.h"

using runner::Value;

namespace {

std::optional<std::string> recorded_environment(const std::string& name) {
  static const std::map<std::string, std::string> kVariables = {
      {"E_INT", "12"},      {"E_EMPTY", ""},    {"E_STR", "abc"},
      {"E_INTERP", "${y}"}, {"E_FLOAT", "1e3"}, {"E_BOOL", "true"},
      {"E_NULL", "null"},   {"E_SP", "a, b"},   {"E_LIST", "[1,2]"}};
  const auto found = kVariables.find(name);
  return found == kVariables.end() ? std::nullopt : std::optional(found->second);
}

/// `python` with the spellings of YAML.
std::string with_yaml_words(std::string python) {
  for (const auto& [from, to] : {std::pair{"True", "true"}, {"False", "false"}, {"None", "null"}}) {
    for (std::size_t at; (at = python.find(from)) != python.npos;)
      python.replace(at, std::string_view(from).size(), to);
  }
  return python;
}

bool is_container_in_text(const runner::Diagnostics& errors) {
  return errors.front().message.find("cannot stand inside a text") != std::string::npos ||
         errors.front().message.find("the default must be a string") != std::string::npos;
}

}  // namespace

Verdict check_interp(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder) {
  const std::string text = recorded["x"];
  std::ifstream stream(folder / "interp_base.yaml");
  std::ostringstream base;
  base << stream.rdbuf();
  runner::Sources sources;
  Value document = *runner::read_yaml(sources.add("base", base.str()));
  document.find("x")->data = text;
  runner::Diagnostics errors;
  const Value resolved = runner::resolve_interpolations(
      document, {runner::kWithoutSchema, recorded_environment, {}}, errors);
  std::erase_if(errors,
                [](const auto& found) { return found.severity == runner::Severity::kWarning; });
  const Value* x = resolved.find("x");
  // A value that refers to ??? is ??? here; Hydra resolves so too, but refuses when it is read.
  const bool is_refused = !errors.empty() || is_mandatory(*x);
  if (!recorded["ok"])
    return is_refused ? Verdict::same() : Verdict::different(text + ": gave " + describe(*x));
  const auto& expected = recorded["value"];
  if (!errors.empty()) {
    if (expected.is_string() && is_container_in_text(errors)) {
      return Verdict::known_difference("a list or mapping inside a text is refused");
    }
    return Verdict::different(text + ": refused: " + errors.front().message);
  }
  if (same_data(*x, runner::from_json(expected))) return Verdict::same();
  if (x->text() && expected.is_string() && *x->text() == with_yaml_words(expected)) {
    return Verdict::known_difference("true, false and null keep these spellings inside a text");
  }
  return Verdict::different(text + ": gave " + describe(*x) + " and not " + expected.dump());
}
