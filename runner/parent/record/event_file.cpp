#include "runner/parent/record/event_file.h"

#include <array>
#include <bit>
#include <cstdio>
#include <vector>

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEventFilePrefix = "events.out.tfevents.", kOurs = ".retort.";

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

/// TensorBoard reads the files of a folder in the order of their names.
fs::path next_name(const fs::path& folder, double time) {
  std::array<char, 64> name{};
  fs::path path;
  for (int number = 0; path.empty() || fs::exists(path); ++number) {
    std::snprintf(name.data(), name.size(), "%s%010lld%s%04d", kEventFilePrefix.data(),
                  static_cast<long long>(time), kOurs.data(), number);
    path = folder / name.data();
  }
  return path;
}

/// Returns an Event with its wall_time and step.
ProtobufMessage event_at(double time, std::int64_t step) {
  return ProtobufMessage().float64(1, time).number(2, static_cast<std::uint64_t>(step));
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

EventFile::EventFile(const fs::path& folder, double time, Storage& storage)
    : file_(next_name(folder, time), storage) {
  file_.append(tensorboard_record(event_at(time, 0).text(3, "brain.Event:2").bytes()));
}

void EventFile::add(const ProtobufMessage& value, std::int64_t step, double time) {
  const ProtobufMessage summary = ProtobufMessage().message(1, value);
  file_.append(tensorboard_record(event_at(time, step).message(5, summary).bytes()));
}

void EventFile::restart(std::int64_t step, double time) {
  constexpr std::uint64_t kStart = 1;  // SessionLog.START
  const ProtobufMessage session = ProtobufMessage().number(1, kStart);
  file_.append(tensorboard_record(event_at(time, step).message(7, session).bytes()));
}

void remove_event_files(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kEventFilePrefix) && name.find(kOurs) != name.npos)
      found.push_back(entry->path());
  }
  for (const fs::path& path : found) fs::remove(path, error);
}

}  // namespace runner
