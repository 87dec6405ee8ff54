#include "runner/parent/run/mlflow_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include <pwd.h>
#include <unistd.h>

#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/flat_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Recipe keys that do not describe results.
constexpr std::array<std::string_view, 4> kNotParams = {"aliases", "hooks", "sweep", "notice"};

/// Returns the options of a recipe by key.
Json params_of(const Json& recipe) {
  Json params = Json::object();
  for (auto& [key, value] : flat_json(recipe)) {
    const std::string first = key.substr(0, key.find('.'));
    if (std::ranges::count(kNotParams, first) == 0) params[key] = std::move(value);
  }
  return params;
}

Json metric_prefixes(const MlflowSubject& subject) {
  Json prefixes = Json::object();
  std::map<std::optional<Family>, int> counts;
  for (const auto& [id, kind] : subject.nodes) ++counts[family_of(kind)];
  for (const auto& [id, kind] : subject.nodes)
    if (counts[family_of(kind)] > 1) prefixes[id] = id + "/";
  return prefixes;
}

std::string user_name() {
  const passwd* const user = getpwuid(geteuid());
  return user && user->pw_name ? user->pw_name : "";
}

/// Returns the recipe's name and the end of the folder's: "classify 2026-01-31/12-00-00".
std::string run_title(const std::string& recipe, const fs::path& folder) {
  const auto is_date = [](const std::string& name) {
    return name.size() == 10 && name[4] == '-' && name[7] == '-';
  };
  const fs::path above = folder.parent_path().filename();
  const fs::path last = is_date(above.string()) ? above / folder.filename() : folder.filename();
  return recipe + " " + last.string();
}

/// Returns a run (RUN in tracker.h) without metrics and parameters, as shown for a sweep.
Json run_of_sweep(const fs::path& folder, const std::string& recipe, double began) {
  Json tags = {{"mlflow.source.name", "retort sweep " + recipe},
               {"mlflow.source.type", "LOCAL"},
               {"mlflow.user", user_name()},
               {"retort.folder", folder.string()}};
  return {{"metrics", ""},
          {"state", mlflow_of_sweep(folder).string()},
          {"name", run_title(recipe, folder)},
          {"began", std::llround(began * 1000)},
          {"params", Json::object()},
          {"tags", std::move(tags)},
          {"prefixes", Json::object()}};
}

Json whole_request(const MlflowTarget& target, Json run, Json sweep,
                   const MlflowPatience& patience) {
  return {{"server", target.server},
          {"experiment", {{"name", target.experiment_name}, {"id", target.experiment_id}}},
          {"run", std::move(run)},
          {"sweep", std::move(sweep)},
          {"tries", patience.tries},
          {"limit_seconds", patience.limit_seconds},
          {"answer_milliseconds", patience.answer_milliseconds}};
}

std::string recipe_name(const Json& recipe) {
  if (!recipe.is_object()) return "";
  const auto name = recipe.find("name");
  return name != recipe.end() && name->is_string() ? name->get<std::string>() : "";
}

}  // namespace

Json mlflow_request(const MlflowTarget& target, const MlflowSubject& subject,
                    const MlflowPatience& patience) {
  const fs::path folder = fs::absolute(subject.folder).lexically_normal();
  const std::string recipe = recipe_name(subject.recipe);
  Json run = run_of_sweep(folder, recipe, subject.began);
  run["metrics"] = RunLayout(folder).metrics().string();
  run["state"] = RunLayout(folder).mlflow().string();
  run["params"] = params_of(subject.recipe);
  run["tags"]["mlflow.source.name"] = "retort run " + recipe;
  run["prefixes"] = metric_prefixes(subject);
  const auto sweep = sweep_of(folder);
  return whole_request(target, std::move(run),
                       sweep ? run_of_sweep(*sweep, recipe, subject.began) : Json(nullptr),
                       patience);
}

Json mlflow_sweep_request(const MlflowTarget& target, const fs::path& folder,
                          const std::string& recipe, double began, const MlflowPatience& patience) {
  return whole_request(target, run_of_sweep(fs::absolute(folder).lexically_normal(), recipe, began),
                       nullptr, patience);
}

Json mlflow_end(const std::string& status, double time) {
  return {{"end", {{"status", status}, {"time", std::llround(time * 1000)}}}};
}

}  // namespace runner
