#include "runner/parent/devices/device_ticket.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPrefix[] = "waiting-";

/// Names in the order in which they are made, by this process or another.
std::string next_ticket_name() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::array<char, 64> text{};
  static std::atomic<int> made = 0;
  std::snprintf(text.data(), text.size(), "%020lld-%d-%d",
                static_cast<long long>(std::chrono::nanoseconds(now).count()), getpid(), made.fetch_add(1));
  return text.data();
}

std::string contents_of(const Descriptor& file) {
  std::string contents(64 << 10, '\0');
  const ssize_t size = ::pread(*file, contents.data(), contents.size(), 0);
  contents.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return contents;
}

/// False where it could not be written whole.
bool write_want(const Descriptor& file, const DeviceWant& want) {
  const std::string text = Json{{"bytes", want.bytes}, {"devices", want.devices}}.dump();
  return ::pwrite(*file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
         ::ftruncate(*file, static_cast<off_t>(text.size())) == 0;
}

std::optional<DeviceWant> want_from(const std::string& text) {
  try {
    const Json json = parse_json<Json>(text);
    const JsonFields fields(json, "a ticket");
    return DeviceWant{fields.count("bytes"), fields.texts("devices")};
  } catch (const std::exception&) {
    return std::nullopt;  // of another version, or somebody has been at it
  }
}

}  // namespace

DeviceTicket::DeviceTicket(const LockFolder& folder, const DeviceWant& want) : folder_(folder) {
  const std::string name = next_ticket_name(), draft = "new-" + name;
  file_ = folder.file(draft);
  // Others see it once it is locked and whole.
  const bool is_whole = try_lock(file_) && write_want(file_, want);
  if (is_whole && folder.rename(draft, kPrefix + name)) name_ = kPrefix + name;
  else folder.remove(draft);
}

DeviceTicket::~DeviceTicket() {
  if (!name_.empty()) folder_.remove(name_);
}

void DeviceTicket::change(const DeviceWant& want) {
  if (!name_.empty()) write_want(file_, want);
}

std::vector<DeviceWant> DeviceTicket::wants_before(const LockFolder& folder, const DeviceTicket* ticket) {
  std::vector<DeviceWant> wants;
  for (const std::string& name : folder.names()) {
    if (!name.starts_with(kPrefix)) continue;
    if (ticket && name == ticket->name_) break;
    const Descriptor file = folder.file(name);
    if (try_lock(file, /*is_shared=*/true)) {  // whoever held it is gone
      folder.remove(name);
      continue;
    }
    if (auto want = want_from(contents_of(file))) wants.push_back(*std::move(want));
  }
  return wants;
}

}  // namespace runner
