#include "runner/parent/cli/launched.h"

#include "runner/parent/config/provenance.h"
#include "runner/parent/schema/schema_node.h"

namespace runner {
namespace {

constexpr const char* kCount = "device.count";

std::string wanted(const LaunchedRank& launched) {
  return std::string(kCount) + '=' + std::to_string(launched.size);
}

Diagnostic contradiction(const LaunchedRank& launched, int count, Location where) {
  return {ErrorCode::kOptionConflict, where, "/device/count",
          "device.count is " + std::to_string(count) + ", but " + launched.launcher +
              " has started " + std::to_string(launched.size) + " ranks",
          "leave out device.count: the launcher sets the number of ranks"};
}

}  // namespace

Result<PreparedRecipe> prepare_launched(const std::optional<LaunchedRank>& launched,
                                        NamedRecipe named, const SchemaSet& schemas,
                                        Sources& sources) {
  auto prepared = prepare(named, schemas, sources);
  if (!prepared || !launched) return prepared;
  const Value& count = *at_key(prepared->recipe.resolved, kCount);
  if (!count.is_default && !chooses_ranks(prepared->recipe.resolved)) {
    if (prepared->graph.ranks == launched->size) return prepared;
    return contradiction(*launched, prepared->graph.ranks, count.where);
  }
  named.overrides.push_back(wanted(*launched));
  return prepare(named, schemas, sources);
}

Result<PreparedRecipe> prepare_recorded_launched(const std::optional<LaunchedRank>& launched,
                                                 const std::filesystem::path& recipe,
                                                 std::vector<std::string> overrides,
                                                 const SchemaSet& schemas, Sources& sources) {
  auto prepared = prepare_recorded(recipe, overrides, schemas, sources);
  if (!prepared || !launched || prepared->graph.ranks == launched->size) return prepared;
  if (!writes({}, prepared->composition.overrides, kCount).empty())
    return contradiction(*launched, prepared->graph.ranks,
                         at_key(prepared->recipe.resolved, kCount)->where);
  overrides.push_back(wanted(*launched));
  return prepare_recorded(recipe, std::move(overrides), schemas, sources);
}

void quieten_other_ranks(const std::optional<LaunchedRank>& launched, Console& console) {
  if (launched && launched->rank > 0) console.verbosity = Verbosity::kQuiet;
}

Diagnostics refused_ranks(std::string_view verb, const Value& before, const Value& after) {
  const Value& count = *at_key(after, kCount);
  const std::int64_t ranks = ranks_of(after);
  if ((ranks == 1 || ranks == ranks_of(before)) && !chooses_ranks(after)) return {};
  return {{ErrorCode::kOptionConflict, count.where, "/device/count",
           "`retort " + std::string(verb) + "` runs in one process, but device.count is " +
               describe(count),
           "leave out device.count: it is for training"}};
}

Diagnostics refused_under_launcher(std::string_view verb, const std::string& help) {
  const auto launched = launched_rank();
  if (!launched) return launched.errors();
  if (!*launched) return {};
  return {{ErrorCode::kUsage,
           {},
           "",
           (*launched)->launcher + " has started " + std::to_string((*launched)->size) +
               " processes, but `retort " + std::string(verb) + "` runs in only one",
           help}};
}

}  // namespace runner
