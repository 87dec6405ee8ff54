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

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Keys of a recipe that describe no result.
constexpr std::array<std::string_view, 4> kNotParams = {"aliases", "hooks", "sweep", "notice"};

void flatten_options(const Json& options, const std::string& key, Json& params) {
  if (options.is_object() && !options.empty()) {
    for (const auto& [name, value] : options.items())
      if (!key.empty() || std::ranges::count(kNotParams, name) == 0)
        flatten_options(value, key.empty() ? name : key + "." + name, params);
  } else if (!key.empty()) {
    params[key] = options.is_string()
                      ? options.get<std::string>()
                      : options.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
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
          {"limit_seconds", patience.limit_seconds}};
}

std::string recipe_name(const Json& recipe) {
  const auto name = recipe.is_object() ? recipe.find("name") : recipe.end();
  return recipe.is_object() && name != recipe.end() && name->is_string() ? name->get<std::string>()
                                                                         : "";
}

}  // namespace

Json mlflow_request(const MlflowTarget& target, const MlflowSubject& subject,
                    const MlflowPatience& patience) {
  const fs::path folder = fs::absolute(subject.folder).lexically_normal();
  const std::string recipe = recipe_name(subject.recipe);
  Json params = Json::object();
  flatten_options(subject.recipe, "", params);
  Json run = run_of_sweep(folder, recipe, subject.began);
  run["metrics"] = RunLayout(folder).metrics().string();
  run["state"] = RunLayout(folder).mlflow().string();
  run["params"] = std::move(params);
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
