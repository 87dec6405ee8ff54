#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "runner/parent/record/event_file.h"
#include "tests/support/program.h"

// Reads TensorBoard's event files, in the formats TFRecord and Protocol Buffers.

namespace runner {

/// The number in up to eight bytes, lowest byte first.
inline std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// A Protocol Buffers message: its fields by number, in order. A number is 8 bytes, little-endian.
class ProtobufFields {
 public:
  explicit ProtobufFields(std::string_view rest) {
    while (!rest.empty()) {
      const std::uint64_t key = varint(rest);
      if (key % 8 == 0) {
        std::string& bytes = fields_[key / 8].emplace_back();
        append_little_endian(bytes, varint(rest));
        continue;
      }
      const std::size_t size = key % 8 == 2 ? varint(rest) : key % 8 == 1 ? 8 : 4;
      fields_[key / 8].emplace_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
  }
  bool contains(std::uint64_t field) const { return fields_.contains(field); }
  /// All values of a field; none if it is absent.
  std::vector<std::string> all(std::uint64_t field) const {
    const auto found = fields_.find(field);
    return found == fields_.end() ? std::vector<std::string>() : found->second;
  }
  const std::string& at(std::uint64_t field) const { return fields_.at(field).at(0); }
  ProtobufFields message(std::uint64_t field) const { return ProtobufFields(at(field)); }
  std::uint64_t number(std::uint64_t field) const { return little_endian(at(field)); }

 private:
  static std::uint64_t varint(std::string_view& rest) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(rest.at(0));
      rest.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  }

  std::map<std::uint64_t, std::vector<std::string>> fields_;
};

/// The events in a file, which must have the right lengths and checksums.
inline std::vector<ProtobufFields> events_in_file(const std::filesystem::path& path) {
  const std::string file = file_text(path);
  std::vector<ProtobufFields> events;
  for (std::string_view rest = file; !rest.empty();) {
    const std::string message(rest.substr(12, little_endian(rest.substr(0, 8))));
    const std::string record = tensorboard_record(message);
    EXPECT_TRUE(rest.starts_with(record)) << "a length or a checksum is wrong";
    rest.remove_prefix(record.size());
    events.emplace_back(message);
  }
  return events;
}

/// The values of the summaries in a file by their tags; the last value of a repeated tag.
inline std::map<std::string, ProtobufFields> summaries_in(const std::filesystem::path& path) {
  std::map<std::string, ProtobufFields> values;
  for (const ProtobufFields& event : events_in_file(path)) {
    if (!event.contains(5)) continue;
    const ProtobufFields value = event.message(5).message(1);
    values.insert_or_assign(value.at(1), value);
  }
  return values;
}

}  // namespace runner
