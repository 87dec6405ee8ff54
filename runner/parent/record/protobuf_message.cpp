#include "runner/parent/record/protobuf_message.h"

#include <bit>

namespace runner {
namespace {

constexpr std::uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;  // wire types

}  // namespace

void ProtobufMessage::varint(std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes_ += static_cast<char>((number & 0x7F) | 0x80);
  bytes_ += static_cast<char>(number);
}

void ProtobufMessage::key(std::uint64_t field, std::uint64_t wire_type) {
  varint(field << 3 | wire_type);
}

ProtobufMessage& ProtobufMessage::text(std::uint64_t field, std::string_view bytes) {
  key(field, kBytes);
  varint(bytes.size());
  bytes_ += bytes;
  return *this;
}

ProtobufMessage& ProtobufMessage::number(std::uint64_t field, std::uint64_t number) {
  key(field, kVarint);
  varint(number);
  return *this;
}

ProtobufMessage& ProtobufMessage::float32(std::uint64_t field, float number) {
  key(field, kFixed32);
  append_little_endian(bytes_, std::bit_cast<std::uint32_t>(number));
  return *this;
}

ProtobufMessage& ProtobufMessage::float64(std::uint64_t field, double number) {
  key(field, kFixed64);
  append_little_endian(bytes_, std::bit_cast<std::uint64_t>(number));
  return *this;
}

}  // namespace runner
