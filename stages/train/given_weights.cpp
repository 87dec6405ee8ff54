#include "stages/train/given_weights.h"

#include <algorithm>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/checkpoint/checkpoints.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::list_checkpoints;
using runner::NodeLayout;
using runner::RunLayout;
using runner::StageError;

[[noreturn]] void refuse(ErrorCode code, const std::string& message, const std::string& help) {
  throw StageError(code, message).with_help(help);
}

/// Returns the checkpoints folder of a node, or of a run's only training stage; empty if there is
/// none.
fs::path checkpoints_of(const fs::path& path) {
  std::error_code error;
  if (!list_checkpoints(path).empty()) return path;
  if (const fs::path own = NodeLayout(path).checkpoints(); fs::is_directory(own, error)) return own;
  const RunLayout run(path);
  std::vector<std::string> trainings;
  for (fs::directory_iterator node(run.nodes(), error), end; !error && node != end;
       node.increment(error)) {
    if (fs::is_directory(NodeLayout(node->path()).checkpoints(), error))
      trainings.push_back(node->path().filename());
  }
  std::ranges::sort(trainings);
  if (trainings.empty()) return {};
  if (trainings.size() == 1) return run.node(trainings[0]).checkpoints();
  std::string names;
  for (const std::string& name : trainings) names += (names.empty() ? "" : ", ") + name;
  refuse(ErrorCode::kMissingWeights,
         "the run '" + path.string() + "' has several training stages: " + names,
         "give the folder of one of them: " + run.node(trainings[0]).folder().string());
}

/// Returns the checkpoint's folder if `path` is a checkpoint's folder or the weights in it;
/// otherwise empty.
fs::path checkpoint_at(const fs::path& path) {
  const fs::path folder = path.filename() == runner::kCheckpointModel ? path.parent_path() : path;
  std::error_code error;
  const bool is_one = runner::checkpoint_name_from(folder.filename().string()) ||
                      fs::exists(folder / runner::kCheckpointManifest, error);
  return is_one ? folder : fs::path();
}

/// Returns the best checkpoint, or the latest if none was measured.
std::optional<FoundCheckpoint> load_best_or_latest(const Checkpoints& checkpoints,
                                                   CheckpointPart part) {
  auto best = checkpoints.load_named_best(part);
  return best ? std::move(best) : checkpoints.load_latest(part);
}

GivenWeights given_by(const fs::path& folder, TrainingState state) {
  const auto base = state.about.find("base");
  const std::string on = base == state.about.end() ? "" : base->second;
  return {std::move(state.model), folder / runner::kCheckpointModel, folder, on,
          std::move(state.about)};
}

/// Returns ", 2 missing (a, b)", with the first few names; empty if there are none.
std::string counted_weights(const std::vector<std::string>& names, const std::string& what) {
  constexpr std::size_t kShown = 5;
  if (names.empty()) return "";
  std::string text = ", " + std::to_string(names.size()) + ' ' + what + " (";
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kShown ? ", …)" : ")");
}

}  // namespace

GivenWeights read_given_weights(const fs::path& path, const std::string& option,
                                WeightContents contents) {
  const CheckpointPart part =
      contents == WeightContents::kShapes ? CheckpointPart::kShapes : CheckpointPart::kWeights;
  std::error_code error;
  if (!fs::exists(path, error))
    refuse(ErrorCode::kMissingWeights, "there is no '" + path.string() + "'",
           "give a run's folder or a safetensors file");
  const fs::path one = checkpoint_at(path);
  if (one.empty() && fs::is_regular_file(path, error))
    return {read_safetensors(path, contents).tensors, path};
  const fs::path folder = one.empty() ? checkpoints_of(path) : one.parent_path();
  const Checkpoints checkpoints(folder, {});
  try {
    if (!one.empty()) return given_by(one, read_checkpoint(one, part));
    auto found = folder.empty() ? std::nullopt : load_best_or_latest(checkpoints, part);
    if (!found) {
      refuse(ErrorCode::kMissingWeights, "'" + path.string() + "' contains no checkpoint",
             "give a run with a trained model, a checkpoint's folder or a safetensors file");
    }
    return given_by(found->folder, std::move(found->state));
  } catch (const StageError& error) {
    if (error.code != ErrorCode::kDamagedWeights) throw;
    refuse(error.code, error.what(), checkpoints.advice(option + ": "));
  }
}

void complete(const torch::nn::Module& network, GivenWeights& given, const fs::path& path,
              runner::RunContext& context) {
  const auto* start = dynamic_cast<const FromOrigin*>(&network);
  if (!start || given.base.empty()) return;
  bool is_partial = false;
  for (const auto& [name, tensor] : weights(network)) {
    if (given.weights.contains(name) || !start->is_of_origin(name)) continue;
    given.weights.set(name, tensor);
    is_partial = true;
  }
  if (!is_partial) return;
  if (!start->origin().empty() && start->origin() != given.base) {
    refuse(ErrorCode::kOptionConflict,
           "the weights in '" + path.string() + "' were trained on different frozen weights: '" +
               given.base + "' there, '" + start->origin() + "' here",
           "use the backbone and frozen weights that these weights were trained on");
  }
  if (!start->origin().empty())
    context.say("the weights that the earlier run left frozen are taken from the backbone");
}

void refuse_misfits(const NamedTensors& own, const NamedTensors& given, const fs::path& path) {
  std::vector<std::string> missing, unexpected, reshaped;
  for (const auto& [name, tensor] : own) {
    if (!given.contains(name)) missing.push_back(name);
    else if (given.at(name).sizes() != tensor.sizes())
      reshaped.push_back(name + " " + c10::str(given.at(name).sizes()) + " for " +
                         c10::str(tensor.sizes()));
  }
  for (const auto& [name, tensor] : given) {
    if (!own.contains(name)) unexpected.push_back(name);
  }
  const std::string misfits = counted_weights(missing, "missing") +
                              counted_weights(unexpected, "unexpected") +
                              counted_weights(reshaped, "with a different shape");
  if (misfits.empty()) return;
  refuse(ErrorCode::kOptionConflict,
         "the weights in '" + path.string() + "' do not match the network: " + misfits.substr(2),
         "use weights from a model of the same kind and size, with the same classes");
}

}  // namespace stages
