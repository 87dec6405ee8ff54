#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace runner {

/// A message of Protocol Buffers, written field by field:
///
///   ProtobufMessage().text(1, "loss").number(2, 7).bytes()
class ProtobufMessage {
 public:
  /// Adds a string, bytes, or the bytes of a message.
  ProtobufMessage& text(std::uint64_t field, std::string_view bytes);
  ProtobufMessage& message(std::uint64_t field, const ProtobufMessage& message) {
    return text(field, message.bytes_);
  }
  /// Adds an integer, a bool or an enum.
  ProtobufMessage& number(std::uint64_t field, std::uint64_t number);
  ProtobufMessage& float32(std::uint64_t field, float number);
  ProtobufMessage& float64(std::uint64_t field, double number);

  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::uint64_t field, std::uint64_t wire_type);
  void varint(std::uint64_t number);

  std::string bytes_;
};

/// Appends the bytes of an unsigned integer, the lowest first.
template <typename Number>
void append_little_endian(std::string& to, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) to += static_cast<char>(number >> (8 * i) & 0xFF);
}

}  // namespace runner
