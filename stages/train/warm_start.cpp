#include "stages/train/warm_start.h"

#include <functional>

#include <torch/nn/module.h>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "stages/checkpoint/checkpoints.h"
#include "stages/train/given_weights.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::NodeLayout;
using runner::StageError;

/// Calls `use` with the file of the weights in `path`, after checking that they match `network`;
/// does nothing if training continues from its own checkpoint.
void with_weights_to_start_from(const torch::nn::Module& network, const fs::path& path,
                                runner::RunContext& context,
                                const std::function<void(const fs::path& file)>& use) {
  const runner::NodeFacts& node = context.node();
  if (node.resuming && Checkpoints(NodeLayout(node.folder).checkpoints(), {}).can_continue())
    return;
  try {
    GivenWeights given = read_given_weights(path, "warm_start", WeightContents::kShapes);
    if (!given.folder.empty())
      context.say("starts from the weights of '" + given.folder.string() + "'");
    complete(network, given, path, context);
    refuse_misfits(weights(network), given.weights, path);
    use(given.file);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what()).at("/warm_start").with_help(error.help);
  }
}

}  // namespace

void warm_start(torch::nn::Module& network, const fs::path& path, runner::RunContext& context) {
  with_weights_to_start_from(network, path, context, [&](const fs::path& file) {
    read_safetensors_into(weights(network), file);
  });
}

void check_warm_start(const torch::nn::Module& network, const fs::path& path,
                      runner::RunContext& context) {
  with_weights_to_start_from(network, path, context, [](const fs::path&) {});
}

}  // namespace stages
