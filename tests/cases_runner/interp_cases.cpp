// interp.jsonl: a value for the key `x` of interp_base.yaml, and what OmegaConf resolves it to.

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

/// Returns `python` with YAML's spellings of True, False and None.
std::string with_yaml_words(std::string python) {
  for (const auto& [from, to] : {std::pair{"True", "true"}, {"False", "false"}, {"None", "null"}}) {
    for (std::size_t at; (at = python.find(from)) != python.npos;)
      python.replace(at, std::string_view(from).size(), to);
  }
  return python;
}

bool is_container_in_text(const runner::Diagnostics& errors) {
  return errors.front().message.find("cannot be inside a string") != std::string::npos ||
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
  // A value that refers to ??? is ??? itself. Hydra also resolves it to ???, but raises an error
  // when the value is read.
  const bool is_refused = !errors.empty() || is_mandatory(*x);
  if (!recorded["ok"])
    return is_refused ? Verdict::same() : Verdict::different(text + ": gives " + describe(*x));
  const auto& expected = recorded["value"];
  if (!errors.empty()) {
    if (expected.is_string() && is_container_in_text(errors)) {
      return Verdict::known_difference("a list or mapping inside a string is rejected");
    }
    return Verdict::different(text + ": rejected: " + errors.front().message);
  }
  if (same_data(*x, runner::from_json(expected))) return Verdict::same();
  if (x->text() && expected.is_string() && *x->text() == with_yaml_words(expected)) {
    return Verdict::known_difference("true, false and null keep these spellings inside a string");
  }
  return Verdict::different(text + ": gives " + describe(*x) + ", not " + expected.dump());
}
