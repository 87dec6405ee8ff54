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

/// Returns the checkpoint that node `id` of `graph` outputs, loaded from the weights that `trained`
/// specifies. `graph` must contain the node and its inputs, except for data. Writes nothing. Throws
/// runner::StageError with the full pointer of the option at fault.
runner::Result<std::shared_ptr<const Checkpoint>> load_network_of_run(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, const RequestContext& context);

/// Like load_network_of_run(), but reads no weights: the checkpoint's network is on the Meta
/// device. Returns nullptr if a node cannot be planned.
runner::Result<std::shared_ptr<const Checkpoint>> outline_network_of_run(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, const RequestContext& context);

/// A run's training node (borrowed) and the checkpoint that it outputs.
struct NodeNetwork {
  const runner::Node* node;
  std::shared_ptr<const Checkpoint> checkpoint;
};

/// Returns the outputs of the training nodes wired to the `checkpoint` port of node `id`, in order.
/// Does not load networks that their nodes have freed. With `are_outlines`, it reads no weights,
/// and the result is empty if a node cannot be planned.
runner::Result<std::vector<NodeNetwork>> networks_wired_to(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, bool are_outlines, const RequestContext& context);

/// Returns the CLIP model that node `id` of `graph` creates from the weights at `reference` without
/// training, as a checkpoint without classes. preprocessor_config.json next to the weights defines
/// how an image becomes the network's input. With `is_outline`, it reads no weights, and the
/// network is on the Meta device. Throws runner::StageError with the full pointer of the option at
/// fault.
runner::Result<std::shared_ptr<const Checkpoint>> network_of_model(
    const runner::Graph& graph, const std::string& id, const std::string& reference,
    std::string_view device, bool is_outline, const RequestContext& context);

/// Returns the transform from an image to the input of a checkpoint's network. Throws
/// runner::StageError if the checkpoint does not describe it.
ImageDatasetOptions transform_of(const Checkpoint& checkpoint);

}  // namespace stages
