#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "stages/artifact/model.h"
#include "stages/data/image_dataset.h"
#include "stages/worker/requests.h"

namespace stages {

/// What the node `id` of `graph` puts out as its checkpoint, from the weights that `trained` names.
/// Data are not needed: `graph` has the node and what it takes in besides. Nothing is written.
/// Throws runner::StageError with the whole pointer of the option to blame.
runner::Result<std::shared_ptr<const Checkpoint>> load_network_of_run(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, const RequestContext& context);

/// The same of weights that are not read: its network is on the Meta device. nullptr where a node
/// cannot be planned.
runner::Result<std::shared_ptr<const Checkpoint>> outline_network_of_run(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, const RequestContext& context);

/// A training of a run, which is borrowed, and what it puts out.
struct NodeNetwork {
  const runner::Node* node;
  std::shared_ptr<const Checkpoint> checkpoint;
};

/// What the trainings put out that are wired to the port `checkpoint` of the node `id`, in their
/// order; networks that their trainings let go are not loaded. As outlines: of weights that are not
/// read; empty where a node cannot be planned.
runner::Result<std::vector<NodeNetwork>> networks_wired_to(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, bool are_outlines, const RequestContext& context);

/// The CLIP that the node `id` of `graph` makes of the weights at `reference`, which nobody has
/// trained here, as a checkpoint without classes: preprocessor_config.json beside the weights says
/// how a picture becomes its input. With `is_outline` the weights are not read, and the network is
/// on the Meta device. Throws as above.
runner::Result<std::shared_ptr<const Checkpoint>> network_of_model(
    const runner::Graph& graph, const std::string& id, const std::string& reference,
    std::string_view device, bool is_outline, const RequestContext& context);

/// How a picture becomes the input of such a network. Throws runner::StageError where the
/// checkpoint does not say.
ImageDatasetOptions transform_of(const Checkpoint& checkpoint);

}  // namespace stages
