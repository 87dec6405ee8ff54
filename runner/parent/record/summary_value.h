#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/parent/record/protobuf_message.h"
#include "runner/shared/stage/run_context.h"

namespace runner {

// Values of a tensorflow.Summary (tensorboard/compat/proto/summary.proto), in the formats that
// TensorBoard's plugins read. A tag is the name of a chart; its part before the first "/" groups
// charts.

ProtobufMessage scalar_value(std::string_view tag, double value);

/// For the text plugin, which shows Markdown.
ProtobufMessage text_value(std::string_view tag, std::string_view markdown);

/// For the images plugin. `jpeg` is the whole file; `description` is Markdown.
ProtobufMessage image_value(std::string_view tag, std::string_view jpeg,
                            std::string_view description);

/// For the histograms plugin. The buckets are in ascending order.
ProtobufMessage histogram_value(std::string_view tag, std::span<const HistogramBucket> buckets);

/// For the hparams plugin, which reads only `content`.
ProtobufMessage hparams_value(std::string_view tag, const ProtobufMessage& content);

/// Returns Markdown that shows `text` verbatim, with each line indented.
std::string markdown_code(std::string_view text);

}  // namespace runner
