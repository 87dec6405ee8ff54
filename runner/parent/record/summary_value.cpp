#include "runner/parent/record/summary_value.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

namespace runner {
namespace {

// tensorflow.DataType and tensorflow.DataClass.
constexpr std::uint64_t kFloat = 1, kDouble = 2, kString = 7;
constexpr std::uint64_t kTensor = 2, kBlobSequence = 3;

struct Plugin {
  std::string_view name;
  std::uint64_t data_class = kTensor;
  std::string_view content = {}, description = {};
};

ProtobufMessage plugin_value(std::string_view tag, const Plugin& plugin,
                             const ProtobufMessage& tensor) {
  const ProtobufMessage data = ProtobufMessage().text(1, plugin.name).text(2, plugin.content);
  ProtobufMessage metadata = ProtobufMessage().message(1, data);
  if (!plugin.description.empty()) metadata.text(3, plugin.description);
  metadata.number(4, plugin.data_class);
  return ProtobufMessage().text(1, tag).message(8, tensor).message(9, metadata);
}

/// Returns a TensorProto without elements.
ProtobufMessage tensor_of(std::uint64_t type, std::initializer_list<std::size_t> sizes) {
  ProtobufMessage shape;
  for (const std::size_t size : sizes) shape.message(2, ProtobufMessage().number(1, size));
  return ProtobufMessage().number(1, type).message(2, shape);
}

/// Returns the width and height in the frame header of a JPEG file; zeros if it has none.
std::pair<unsigned, unsigned> size_of_jpeg(std::string_view jpeg) {
  const auto byte = [&](std::size_t at) { return unsigned{static_cast<unsigned char>(jpeg[at])}; };
  const auto word = [&](std::size_t at) { return byte(at) << 8 | byte(at + 1); };
  for (std::size_t at = 2; at + 8 < jpeg.size() && byte(at) == 0xFF; at += 2 + word(at + 2)) {
    const unsigned marker = byte(at + 1);
    const bool is_other = marker == 0xC4 || marker == 0xC8 || marker == 0xCC;
    if (marker >= 0xC0 && marker <= 0xCF && !is_other) return {word(at + 7), word(at + 5)};
  }
  return {0, 0};
}

}  // namespace

ProtobufMessage scalar_value(std::string_view tag, double value) {
  return ProtobufMessage().text(1, tag).float32(2, static_cast<float>(value));
}

ProtobufMessage text_value(std::string_view tag, std::string_view markdown) {
  return plugin_value(tag, {.name = "text"}, tensor_of(kString, {}).text(8, markdown));
}

ProtobufMessage image_value(std::string_view tag, std::string_view jpeg,
                            std::string_view description) {
  const auto [width, height] = size_of_jpeg(jpeg);
  ProtobufMessage tensor = tensor_of(kString, {3});
  tensor.text(8, std::to_string(width)).text(8, std::to_string(height)).text(8, jpeg);
  return plugin_value(
      tag, {.name = "images", .data_class = kBlobSequence, .description = description}, tensor);
}

ProtobufMessage histogram_value(std::string_view tag, std::span<const HistogramBucket> buckets) {
  std::string elements;
  for (const HistogramBucket& bucket : buckets) {
    for (const double number : {bucket.left, bucket.right, static_cast<double>(bucket.count)})
      append_little_endian(elements, std::bit_cast<std::uint64_t>(number));
  }
  return plugin_value(tag, {.name = "histograms"},
                      tensor_of(kDouble, {buckets.size(), 3}).text(4, elements));
}

ProtobufMessage hparams_value(std::string_view tag, const ProtobufMessage& content) {
  return plugin_value(tag, {.name = "hparams", .content = content.bytes()}, tensor_of(kFloat, {0}));
}

std::string markdown_code(std::string_view text) {
  std::string code;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    code += "    " + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return code;
}

}  // namespace runner
