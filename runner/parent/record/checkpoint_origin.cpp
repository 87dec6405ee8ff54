#include "runner/parent/record/checkpoint_origin.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kAccepted = "accepted";

/// Identifies the training run that saved a checkpoint.
struct CheckpointOrigin {
  std::string recipe_hash;
  std::uint64_t seed = 0;  // the node's seed; differs between the nodes of a recipe
  auto operator<=>(const CheckpointOrigin&) const = default;
};
using Origins = std::map<std::string, std::set<CheckpointOrigin>>;  // by node

/// Returns the JSON object in a file; null if the file does not contain one.
Json object_in(const fs::path& file) {
  const auto text = real_file_system().read(file, 64 << 20);
  Json json = text ? parse_json<Json>(*text) : Json();
  return json.is_object() ? json : Json();
}

Json member_of(const Json& object, const char* key) {
  return object.is_object() ? object.value(key, Json()) : Json();
}

std::optional<CheckpointOrigin> origin_of(const Json& recipe_hash, const Json& seed) {
  if (!recipe_hash.is_string() || !seed.is_number_unsigned()) return std::nullopt;
  return CheckpointOrigin{recipe_hash.get<std::string>(), seed.get<std::uint64_t>()};
}

/// Adds the origins that a graph.json contains or has accepted.
void add_origins_in(const Json& graph, Origins& known) {
  for (const Json& node : member_of(graph, "nodes")) {
    const Json id = member_of(node, "id");
    const auto origin = origin_of(member_of(graph, "recipe_hash"), member_of(node, "seed"));
    if (origin && id.is_string()) known[id].insert(*origin);
  }
  const Json accepted = member_of(graph, kAccepted);
  if (!accepted.is_object()) return;
  for (const auto& [id, pairs] : accepted.items()) {
    if (!pairs.is_array()) continue;
    for (const Json& pair : pairs) {
      const bool is_pair = pair.is_array() && pair.size() == 2;
      if (const auto origin = is_pair ? origin_of(pair[0], pair[1]) : std::nullopt)
        known[id].insert(*origin);
    }
  }
}

/// Returns the origins in all records of a run, complete or not.
Origins known_origins(const RunLayout& run) {
  Origins known;
  add_origins_in(object_in(run.records() / RunRecord::kGraph), known);
  for (int number = 1; real_file_system().is_folder(run.resume(number)); ++number)
    add_origins_in(object_in(run.resume(number) / RunRecord::kGraph), known);
  return known;
}

/// Calls `see` with each checkpoint of a training stage that has a readable state.json.
void look_at_checkpoints(
    const RunLayout& run, const Graph& graph,
    const std::function<void(const Node&, const fs::path& folder, const CheckpointOrigin&)>& see) {
  for (const Node& node : graph.nodes) {
    if (family_of(node.kind) != Family::kTrain) continue;
    const fs::path all = run.node(node.id).checkpoints();
    for (const CheckpointName& name : list_checkpoints(all)) {
      const fs::path folder = all / to_text(name);
      const Json state = object_in(folder / kCheckpointState);
      if (const auto origin = origin_of(member_of(state, "recipe_hash"), member_of(state, "seed")))
        see(node, folder, *origin);
    }
  }
}

}  // namespace

Diagnostics foreign_checkpoints(const fs::path& folder, const Graph& graph) {
  const RunLayout run(folder);
  const Origins known = known_origins(run);
  Diagnostics found;
  look_at_checkpoints(
      run, graph,
      [&](const Node& node, const fs::path& checkpoint, const CheckpointOrigin& origin) {
        const auto own = known.find(node.id);
        if (own == known.end() || own->second.contains(origin)) return;
        if (real_file_system().is_file(run.node(node.id).reused())) return;
        found.push_back(
            {ErrorCode::kChangedRun,
             {},
             node.pointer,
             "the checkpoint '" + checkpoint.string() + "' belongs to another training run",
             ""});
      });
  return found;
}

Json accepted_checkpoints(const fs::path& folder, const Graph& graph) {
  Origins all;
  look_at_checkpoints(RunLayout(folder), graph,
                      [&](const Node& node, const fs::path&, const CheckpointOrigin& origin) {
                        all[node.id].insert(origin);
                      });
  Json accepted = Json::object();
  for (const auto& [id, origins] : all)
    for (const auto& [recipe_hash, seed] : origins) accepted[id].push_back({recipe_hash, seed});
  return accepted;
}

}  // namespace runner
