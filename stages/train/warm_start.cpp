#include "stages/train/warm_start.h"

#include <optional>

#include <torch/nn/module.h>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "stages/checkpoint/checkpoints.h"
#include "stages/train/given_weights.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::NodeLayout;
using runner::StageError;

/// Returns the weights in `path`, after checking that they match `network`; nullopt if training
/// continues from its own checkpoint.
std::optional<NamedTensors> weights_to_start_from(const torch::nn::Module& network,
                                                  const fs::path& path,
                                                  runner::RunContext& context) {
  const runner::NodeFacts& node = context.node();
  if (node.resuming && Checkpoints(NodeLayout(node.folder).checkpoints(), {}).can_continue())
    return {};
  try {
    GivenWeights given = read_given_weights(path, "warm_start");
    if (!given.folder.empty())
      context.say("starts from the weights of '" + given.folder.string() + "'");
    complete(network, given, path, context);
    refuse_misfits(weights(network), given.weights, path);
    return std::move(given.weights);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what()).at("/warm_start").with_help(error.help);
  }
}

}  // namespace

void warm_start(torch::nn::Module& network, const fs::path& path, runner::RunContext& context) {
  if (const auto given = weights_to_start_from(network, path, context))
    set_weights(network, *given);
}

void check_warm_start(const torch::nn::Module& network, const fs::path& path,
                      runner::RunContext& context) {
  weights_to_start_from(network, path, context);
}

}  // namespace stages
