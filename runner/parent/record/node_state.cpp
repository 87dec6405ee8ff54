#include "runner/parent/record/node_state.h"

#include <algorithm>
#include <set>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

/// Returns the state of the checkpoint to which the file `pointer` points; null if it cannot be
/// read.
nlohmann::json pointed_state(const fs::path& checkpoints, const char* pointer) {
  constexpr std::size_t kLargest = 64 << 20;
  const auto name = pointed_to(checkpoints / pointer);
  if (!name) return {};
  const auto text =
      real_file_system().read(checkpoints / to_text(*name) / kCheckpointState, kLargest);
  const auto json = text ? parse_json<nlohmann::json>(*text) : nlohmann::json();
  return json.is_object() ? json : nlohmann::json();
}

std::optional<std::int64_t> epoch_in(const nlohmann::json& state) {
  const auto found = state.find("epoch");
  if (found == state.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

/// Removes a file or folder; does nothing if it does not exist.
void remove_whole(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw WriteError(write_diagnostic(path, error.value(), ErrorCode::kCannotWrite));
}

}  // namespace

std::string_view name(NodeState::Progress progress) {
  switch (progress) {
    case NodeState::Progress::kDone:
      return "done";
    case NodeState::Progress::kPartial:
      return "partial";
    case NodeState::Progress::kMissing:
      return "missing";
  }
  return "";
}

NodeState node_state(const fs::path& run, const std::string& node) {
  const NodeLayout layout = RunLayout(run).node(node);
  NodeState state;
  const nlohmann::json latest = pointed_state(layout.checkpoints(), kLatestCheckpoint),
                       best = pointed_state(layout.checkpoints(), kBestCheckpoint);
  if (latest.is_object()) state.epoch = epoch_in(latest);
  if (best.is_object()) {
    state.best_epoch = epoch_in(best);
    if (const auto metric = best.find("metric"); metric != best.end() && metric->is_number())
      state.best = metric->get<double>();
  }
  const auto finished = read_finished(layout.folder());
  if (finished) {
    const auto missing = what_is_missing(layout.folder(), *finished);
    if (!missing) {
      state.progress = NodeState::Progress::kDone;
      return state;
    }
    state.missing = *missing;
  }
  state.progress =
      latest.is_object() ? NodeState::Progress::kPartial : NodeState::Progress::kMissing;
  return state;
}

std::vector<std::string> nodes_after(const Graph& graph, const std::string& id) {
  std::set<std::size_t> reached;
  std::vector<std::string> after;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool depends = std::ranges::any_of(
        node.inputs, [&](const Edge& edge) { return reached.contains(edge.from); });
    if (node.id == id || depends) reached.insert(i);
    if (depends) after.push_back(node.id);
  }
  return after;
}

void reset_node(const fs::path& run, const Graph& graph, const std::string& id) {
  // Resets dependent nodes first, so that none of them is ever done while this node is not.
  const RunLayout layout(run);
  for (const std::string& dependent : nodes_after(graph, id))
    remove_whole(layout.node(dependent).finished());
  remove_whole(layout.node(id).finished());
  remove_whole(layout.node(id).folder());
}

}  // namespace runner
