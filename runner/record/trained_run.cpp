#include "runner/record/trained_run.h"

#include <algorithm>
#include <vector>

#include "runner/disk/file_system.h"
#include "runner/stage/checkpoint_name.h"
#include "runner/stage/family.h"
#include "runner/stage/run_layout.h"
#include "runner/text/suggest.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using WeightsChoice = TrainedWeights::Choice;

fs::path whole(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

std::string listed(const TrainedNodes& trained) {
  std::string text;
  for (const auto& [id, weights] : trained) text += (text.empty() ? "'" : ", '") + id + "'";
  return text;
}

Diagnostic nothing_saved(const RecordedRun& run, const std::string& id) {
  const std::string folder = run.folder.string();
  return {ErrorCode::kNoCheckpoint,
          {},
          "",
          "the run in '" + folder + "' has saved no checkpoint of '" + id + "' yet",
          "train it first: retort resume " + folder};
}

Diagnostic no_such_checkpoint(const std::string& which, const fs::path& saved) {
  const std::vector<CheckpointName> names = list_checkpoints(saved);
  return {ErrorCode::kNoCheckpoint,
          {},
          "",
          "there is no checkpoint in '" + which + "'",
          names.empty()
              ? "give best, latest, or the folder of one"
              : "give best, latest, or the folder of one, such as " + (saved / to_text(names.front())).string()};
}

}  // namespace

Result<TrainedNodes> find_trained_nodes(const RecordedRun& run, const Graph& graph, const std::string& which) {
  if (!run.source.empty()) {
    return Diagnostic{ErrorCode::kNoCheckpoint,
                      {},
                      "",
                      "'" + run.folder.string() + "' is an evaluation and has no weights of its own",
                      "name the run that it has evaluated: " + run.source};
  }
  const bool is_folder = !which.empty() && which != "best" && which != "latest";
  const WeightsChoice choice = which == "best"     ? WeightsChoice::kBest
                               : which == "latest" ? WeightsChoice::kLatest
                                                   : WeightsChoice::kKept;
  TrainedNodes trained;
  Diagnostics errors;
  for (const Node& node : graph.nodes) {
    if (family_of(node.kind) != Family::kTrain) continue;
    const fs::path saved = RunLayout(run.folder).node(node.id).checkpoints();
    trained[node.id] = {whole(saved), choice};
    if (!is_folder && list_checkpoints(saved).empty()) errors.push_back(nothing_saved(run, node.id));
  }
  if (!errors.empty()) return errors;
  if (trained.empty()) {
    return Diagnostic{ErrorCode::kNoCheckpoint,
                      {},
                      "",
                      "the run in '" + run.folder.string() + "' has trained nothing",
                      "its recipe has no stage of the family train"};
  }
  if (!is_folder) return trained;
  if (trained.size() > 1) {
    return Diagnostic{ErrorCode::kUsage,
                      {},
                      "",
                      "--checkpoint names one checkpoint, and the run has several trainings: " + listed(trained),
                      "--checkpoint best and --checkpoint latest apply to all of them"};
  }
  TrainedWeights& weights = trained.begin()->second;
  if (!real_file_system().is_file(fs::path(which) / kCheckpointManifest))
    return no_such_checkpoint(which, weights.folder);
  weights = {whole(which), WeightsChoice::kThis};
  return trained;
}

Result<std::string> choose_trained_node(const TrainedNodes& trained, const std::string& wanted) {
  if (wanted.empty() && trained.size() == 1) return trained.begin()->first;
  if (trained.contains(wanted)) return wanted;
  if (wanted.empty()) {
    return Diagnostic{ErrorCode::kUsage,
                      {},
                      "",
                      "the run has several trainings: " + listed(trained),
                      "name one: --node " + trained.begin()->first};
  }
  std::vector<std::string> names;
  for (const auto& [id, weights] : trained) names.push_back(id);
  const std::string help = did_you_mean(wanted, names);
  return Diagnostic{ErrorCode::kUsage,
                    {},
                    "",
                    "the run has no training '" + wanted + "'",
                    help.empty() ? "it has " + listed(trained) : help};
}

}  // namespace runner
