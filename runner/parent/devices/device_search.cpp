#include "runner/parent/devices/device_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPrefix[] = "waiting-";

/// Returns a name that sorts after all names created before, by this process or another.
std::string next_ticket_name() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::array<char, 64> text{};
  static std::atomic<int> made = 0;
  std::snprintf(text.data(), text.size(), "%020lld-%d-%d",
                static_cast<long long>(std::chrono::nanoseconds(now).count()), getpid(),
                made.fetch_add(1));
  return text.data();
}

std::string contents_of(const Descriptor& file) {
  std::string contents(64 << 10, '\0');
  const ssize_t size = ::pread(*file, contents.data(), contents.size(), 0);
  contents.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return contents;
}

/// Returns false if the DeviceWant could not be written completely.
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
    return std::nullopt;  // written by another version, or edited
  }
}

}  // namespace

DeviceTicket::DeviceTicket(const LockFolder& folder, const DeviceWant& want) : folder_(folder) {
  const std::string name = next_ticket_name(), draft = "new-" + name;
  file_ = folder.file(draft);
  // Other processes see the ticket only once it is locked and complete.
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

std::vector<DeviceWant> DeviceTicket::wants_before(const LockFolder& folder,
                                                   const DeviceTicket* ticket) {
  std::vector<DeviceWant> wants;
  for (const std::string& name : folder.names()) {
    if (!name.starts_with(kPrefix)) continue;
    if (ticket && name == ticket->name_) break;
    const Descriptor file = folder.file(name);
    if (try_lock(file, /*is_shared=*/true)) {  // the process that held the ticket is gone
      folder.remove(name);
      continue;
    }
    if (auto want = want_from(contents_of(file))) wants.push_back(*std::move(want));
  }
  return wants;
}

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Choosing takes milliseconds, unless the process is suspended.
constexpr auto kTurnPatience = 5s;
constexpr auto kTurnPause = 5ms;

/// The right to choose, which only one run has at a time. Trying a lock takes it briefly, and
/// another run must not mistake that for a device in use.
class QueueTurn {
 public:
  explicit QueueTurn(const LockFolder& folder) : file_(folder.file("choosing.lock")) {
    const auto deadline = Clock::now() + kTurnPatience;
    while (!try_lock(file_) && Clock::now() < deadline) std::this_thread::sleep_for(kTurnPause);
  }

 private:
  Descriptor file_;
};

}  // namespace

DeviceSearch::DeviceSearch(const DeviceRequest& request, const NeedOf& need_of,
                           const DeviceWorld& world, const LockFolder& folder)
    : request_(request), need_of_(need_of), world_(world), folder_(folder) {
  if (request.need) need_ = {*request.need, "device.min_gpu_memory_mb"};
}

Result<TakenDevice> DeviceSearch::run(const MeantDevices& first_look) {
  candidates_ = first_look;
  if (auto found = attempt()) return *std::move(found);
  if (!request_.wait || is_hopeless()) return in_vain(/*has_waited=*/false);
  return wait();
}

/// Returns the best device that remains once runs that have waited longer have chosen; nullopt if
/// none does.
std::optional<DeviceSearch::Held> DeviceSearch::pick() {
  const QueueTurn turn(folder_);
  taken_.clear();
  std::vector<Held> free;
  for (DeviceFacts& device : ranked(candidates_)) {
    auto lock = request_.index() && device.uuid == candidates_.first_choice
                    ? DeviceLock::share(folder_, device.uuid)
                    : DeviceLock::take(folder_, device.uuid);
    if (lock) free.push_back({std::move(device), *std::move(lock)});
    else taken_.push_back(device.uuid);
  }
  for (const DeviceWant& want :
       DeviceTicket::wants_before(folder_, ticket_ ? &*ticket_ : nullptr)) {
    const auto theirs = std::ranges::find_if(free, [&](const Held& held) {
      return has_room(held.device, want.bytes) &&
             std::ranges::count(want.devices, held.device.uuid) > 0;
    });
    if (theirs == free.end()) continue;
    taken_.push_back(theirs->device.uuid);
    free.erase(theirs);
  }
  const auto mine = std::ranges::find_if(
      free, [&](const Held& held) { return has_room(held.device, need_ ? need_->bytes : 0); });
  if (mine == free.end()) return std::nullopt;
  return std::move(*mine);
}

/// Takes a device if one is available now; otherwise returns nullopt.
std::optional<Result<TakenDevice>> DeviceSearch::attempt() {
  auto held = pick();
  if (!held) return std::nullopt;
  const bool was_known = need_.has_value();
  auto found = check_need(*std::move(held));
  return found || was_known ? std::move(found) : attempt();  // another device may have room
}

/// Determines the need if it is unknown. nullopt: `held` does not have enough free memory.
std::optional<Result<TakenDevice>> DeviceSearch::check_need(Held held) {
  if (!need_) {
    const auto need = need_of_(held.device);
    if (!need) return Result<TakenDevice>(need.errors());
    need_ = *need;
    if (ticket_) ticket_->change(want());
  }
  if (!has_room(held.device, need_->bytes)) return std::nullopt;
  return Result<TakenDevice>(taken(std::move(held)));
}

Result<TakenDevice> DeviceSearch::wait() {
  ticket_.emplace(folder_, want());
  const auto length = [](std::chrono::duration<double> seconds) {
    return std::chrono::ceil<Clock::duration>(seconds);
  };
  const auto start = world_.now(), deadline = start + length(request_.timeout);
  world_.say("device: waiting for a GPU" +
             (need_ ? " with " + bytes_text(need_->bytes) + " free" : std::string()) +
             ", at most " + duration_text(request_.timeout.count()));
  say_who_holds();
  std::optional<Held> seen;  // the device had room at the previous check
  for (auto now = world_.now(); now < deadline; now = world_.now()) {
    if (const auto signal = world_.sleep(std::min(length(request_.interval), deadline - now))) {
      const std::chrono::duration<double> waited = world_.now() - start;
      return stopped_by(*signal, "after waiting " + duration_text(waited.count()) + " for a GPU");
    }
    if (Diagnostics errors = look_again(); !errors.empty()) return errors;
    const bool is_last = world_.now() >= deadline;
    if (seen) {
      const auto again =
          std::ranges::find(candidates_.devices, seen->device.uuid, &DeviceFacts::uuid);
      if (again != candidates_.devices.end()) {
        seen->device = *again;
        if (auto found = check_need(*std::move(seen))) return *std::move(found);
      }
      seen.reset();
      if (is_hopeless()) break;
    }
    seen = pick();
    if (seen && is_last) {
      if (auto found = check_need(*std::move(seen))) return *std::move(found);
      seen.reset();
    }
    say_who_holds();
  }
  return in_vain(/*has_waited=*/!is_hopeless());
}

/// Reads the devices again. Returns errors if there is no device left to wait for.
Diagnostics DeviceSearch::look_again() {
  const DeviceReading reading = world_.source.read();
  problems_ = reading.problems;
  const auto visible = visible_devices(reading, world_.variables);
  if (!visible) return visible.errors();
  auto found = candidates(request_, *visible);
  if (!found) return found.errors();
  if (found->devices.empty()) {
    Diagnostic gone{ErrorCode::kDeviceUnavailable,
                    {},
                    "/device/select",
                    "the GPUs that the run was waiting for are gone",
                    "`retort devices` shows what is left"};
    if (!reading.why_none.empty()) gone.message += ": " + reading.why_none;
    for (const std::string& problem : problems_) gone.notes.push_back({{}, problem});
    return {gone};
  }
  candidates_ = *std::move(found);
  return {};
}

void DeviceSearch::say_who_holds() {
  std::string who;  // excludes byte counts, which change constantly
  for (const DeviceFacts& device : candidates_.devices) {
    who += device.uuid + (std::ranges::count(taken_, device.uuid) ? "*" : "");
    for (const DeviceHolder& holder : device.holders) who += ' ' + std::to_string(holder.pid);
  }
  if (who == said_) return;
  said_ = who;
  for (const DeviceFacts& device : candidates_.devices) {
    const bool is_taken = std::ranges::count(taken_, device.uuid) > 0;
    world_.say("  " + device_text(device) + ": " + state_text(device) +
               (is_taken ? "; another run of yours uses it" : ""));
  }
}

/// True if no candidate could ever have enough free memory.
bool DeviceSearch::is_hopeless() const {
  return need_ && std::ranges::none_of(candidates_.devices, [&](const DeviceFacts& device) {
           return could_have_room(device, need_->bytes);
         });
}

Diagnostic DeviceSearch::in_vain(bool has_waited) const {
  Diagnostic error = no_room(candidates_.devices, need_.value_or(DeviceNeed()), taken_, has_waited);
  for (const std::string& problem : problems_) error.notes.push_back({{}, problem});
  return error;
}

DeviceWant DeviceSearch::want() const {
  DeviceWant want{.bytes = need_ ? need_->bytes : 0};
  for (const DeviceFacts& device : candidates_.devices) want.devices.push_back(device.uuid);
  return want;
}

TakenDevice DeviceSearch::taken(Held held) const {
  const bool is_named = request_.index() && held.device.uuid == candidates_.first_choice;
  const bool is_preferred = !is_named && held.device.uuid == candidates_.first_choice;
  TakenDevice taken{.select = is_named ? request_.select : "cuda:0",
                    .device = std::move(held.device),
                    .is_only_visible = !is_named,
                    .lock = std::move(held.lock)};
  taken.why = is_named                      ? "the recipe specifies it"
              : is_preferred                ? "the run used it before"
              : !request_.preferred.empty() ? "the GPU that the run used before is not available"
              : candidates_.devices.size() == 1 ? "it is the only one"
              : taken_.empty() && need_->bytes == 0
                  ? "it has the most free memory"
                  : "it has the most free memory among those that are free and large enough";
  world_.say(
      "device: " + device_text(*taken.device) + ", " + state_text(*taken.device) + "; " +
      (need_->bytes > 0 ? bytes_text(need_->bytes) + " needed (" + need_->from + "); " : "") +
      taken.why);
  return taken;
}

}  // namespace runner
