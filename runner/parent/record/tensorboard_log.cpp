#include "runner/parent/record/tensorboard_log.h"

#include <array>
#include <bit>
#include <cstdio>

#include "runner/parent/record/run_summary.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {
namespace {

// Wire types of Protocol Buffers.
constexpr std::uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

template <typename Number>
void append_little_endian(std::string& to, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) to += static_cast<char>(number >> (8 * i) & 0xFF);
}

void append_varint(std::string& to, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) to += static_cast<char>((number & 0x7F) | 0x80);
  to += static_cast<char>(number);
}

void append_key(std::string& to, std::uint64_t field, std::uint64_t wire_type) {
  append_varint(to, field << 3 | wire_type);
}

void append_bytes(std::string& to, std::uint64_t field, std::string_view bytes) {
  append_key(to, field, kBytes);
  append_varint(to, bytes.size());
  to += bytes;
}

/// Returns an Event with its wall_time and step.
std::string event_at(double time, std::int64_t step) {
  std::string event;
  append_key(event, 1, kFixed64);
  append_little_endian(event, std::bit_cast<std::uint64_t>(time));
  append_key(event, 2, kVarint);
  append_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kCastagnoli = 0x82F63B78;  // with reversed bits
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kCastagnoli : 0);
    table[i] = crc;
  }
  return table;
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xA282EAD8;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::string tensorboard_record(std::string_view message) {
  std::string record;
  append_little_endian(record, static_cast<std::uint64_t>(message.size()));
  append_little_endian(record, masked_crc(record));
  record += message;
  append_little_endian(record, masked_crc(message));
  return record;
}

NewFile& TensorBoardLog::file_of(const std::string& node, double time) {
  const auto found = files_.find(node);
  if (found != files_.end()) return found->second;
  const std::filesystem::path below = folder_ / node;
  make_folders(below, *storage_);
  // TensorBoard reads the files in a folder in name order.
  std::array<char, 64> name{};
  std::filesystem::path path;
  for (int number = 0; path.empty() || std::filesystem::exists(path); ++number) {
    std::snprintf(name.data(), name.size(), "events.out.tfevents.%010lld.retort.%04d",
                  static_cast<long long>(time), number);
    path = below / name.data();
  }
  NewFile& file = files_.emplace(node, NewFile(path, *storage_)).first->second;
  std::string version = event_at(time, 0);
  append_bytes(version, 3, "brain.Event:2");
  file.append(tensorboard_record(version));
  return file;
}

std::vector<std::string> TensorBoardLog::files() const {
  std::vector<std::string> names;
  for (const auto& [node, file] : files_)
    names.push_back(file.path().lexically_relative(folder_).string());
  return names;
}

void TensorBoardLog::metric(const NodeMetric& metric, double time) {
  std::string value;
  append_bytes(value, 1, metric.name);
  append_key(value, 2, kFixed32);
  append_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(metric.value)));
  std::string summary;
  append_bytes(summary, 1, value);
  std::string event = event_at(time, metric.step);
  append_bytes(event, 5, summary);
  file_of(metric.node, time).append(tensorboard_record(event));
}

void TensorBoardLog::restart(const std::string& node, std::int64_t step, double time) {
  std::string session;
  append_key(session, 1, kVarint);
  append_varint(session, 1);  // SessionLog.START
  std::string event = event_at(time, step);
  append_bytes(event, 7, session);
  file_of(node, time).append(tensorboard_record(event));
}

namespace {

/// In a damaged record, a node's name could be a path that leads elsewhere.
bool is_file_name(const std::string& node) {
  return !node.empty() && node != "." && node != ".." && node.find('/') == std::string::npos;
}

}  // namespace

std::vector<std::string> write_tensorboard(const std::filesystem::path& run,
                                           const std::filesystem::path& folder) {
  const double start = started_at(run);
  TensorBoardLog log(folder);
  for (const auto& [metric, seconds] : read_metrics(RunLayout(run).metrics()).lines)
    if (is_file_name(metric.node)) log.metric(metric, start + seconds);
  return log.files();
}

}  // namespace runner
