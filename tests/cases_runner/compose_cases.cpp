// compose.jsonl: a config in the folder conf, overrides, and how Hydra composes them.

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "runner/parent/config/compose.h"
#include "tests/cases_runner/formats.h"

namespace {

using Json = nlohmann::ordered_json;

struct Composed {
  runner::Composition composition;
  runner::Result<runner::Value> resolved;
};

runner::Result<Composed> compose(const Json& recorded, const std::filesystem::path& folder,
                                 runner::Sources& sources) {
  runner::ComposeRequest request{
      recorded["config"], recorded["overrides"].get<std::vector<std::string>>(), {}};
  request.config_folders = {folder / "conf"};
  auto composer = runner::Composer::open(std::move(request), runner::real_file_system(),
                                         runner::kWithoutSchema, sources);
  if (!composer) return composer.errors();
  auto composition = composer->compose_once();
  if (!composition) return composition.errors();
  auto resolved = composer->resolve(*composition);
  return Composed{*std::move(composition), std::move(resolved)};
}

Json choices_of(const runner::Composition& composition) {
  Json result = Json::object();
  for (const runner::GroupChoice& choice : composition.defaults.choices) {
    result[choice.key] = choice.option ? Json(*choice.option) : Json(nullptr);
  }
  return result;
}

/// Compares the choices regardless of their order.
bool same_choices(const Json& ours, const Json& recorded) {
  return nlohmann::json::parse(ours.dump()) == nlohmann::json::parse(recorded.dump());
}

/// True if the config's defaults list contains only overrides of other choices.
bool lists_only_overrides(const std::filesystem::path& config) {
  std::ifstream file(config);
  int overrides = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == line.npos || line[begin] != '-') continue;
    if (!line.substr(begin).starts_with("- override ")) return false;
    ++overrides;
  }
  return overrides > 0;
}

/// Returns why Retort accepts what Hydra rejects, or rejects what Hydra accepts; empty if there is
/// no known reason.
std::string reason_to_differ(const Json& recorded, const std::filesystem::path& folder) {
  const auto overrides = recorded["overrides"].get<std::vector<std::string>>();
  if (lists_only_overrides(folder / "conf" / (recorded["config"].get<std::string>() + ".yaml")))
    return "a primary config keeps its own content whatever its defaults list contains";
  const auto any = [&](const auto& is_so) { return std::ranges::any_of(overrides, is_so); };
  if (!recorded["ok"] && any([](const std::string& text) { return text.ends_with("=null"); }))
    return "group=null removes the choice of a group";
  if (!recorded["ok"] && any([](const std::string& text) { return text.starts_with("++"); }))
    return "++group=option chooses an option";
  if (any([](const std::string& text) { return text.starts_with("~"); }))
    return recorded["ok"] ? "~group before +group=option replaces the choice"
                          : "~group also removes a list of options";
  return "";
}

}  // namespace

Verdict check_compose(const Json& recorded, const std::filesystem::path& folder) {
  const std::string label =
      recorded["config"].get<std::string>() + " " + recorded["overrides"].dump();
  runner::Sources sources;
  const auto composed = compose(recorded, folder, sources);
  if (!composed && !recorded["ok"]) return Verdict::same();
  std::string found;
  if (!composed) {
    found = "rejected: " + composed.errors().front().message;
  } else if (!recorded["ok"]) {
    found = "should be rejected: " + recorded["error"].get<std::string>();
  } else if (const auto raw = runner::from_json(recorded["raw"]);
             !same_data(composed->composition.unresolved, raw)) {
    found = "composes to " + to_json(composed->composition.unresolved).dump();
  } else if (const Json choices = choices_of(composed->composition);
             !same_choices(choices, recorded["choices"])) {
    found = "chooses " + choices.dump() + ", not " + recorded["choices"].dump();
  } else if (!recorded.contains("resolved")) {
    if (composed->resolved) found = "should not resolve";
  } else if (!composed->resolved) {
    found = "does not resolve: " + composed->resolved.errors().front().message;
  } else if (!same_data(*composed->resolved, runner::from_json(recorded["resolved"]))) {
    found = "resolves to " + to_json(*composed->resolved).dump();
  }
  if (found.empty()) return Verdict::same();
  const std::string reason = reason_to_differ(recorded, folder);
  return reason.empty() ? Verdict::different(label + ": " + found)
                        : Verdict::known_difference(reason);
}
