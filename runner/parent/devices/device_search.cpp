#include "runner/parent/devices/device_search.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "runner/shared/error/stop.h"
#include "runner/shared/text/bytes.h"
#include "runner/shared/text/duration.h"

namespace runner {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTurnPatience = 5s;  // others choose within milliseconds, unless one was stopped at it
constexpr auto kTurnPause = 5ms;

/// The right to choose, which one run has at a time: to try a lock is to hold it for a moment, and another must not
/// take that for a device in use.
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

DeviceSearch::DeviceSearch(const DeviceWish& wish, const NeedOf& need_of, const DeviceWorld& world,
                           const LockFolder& folder)
    : wish_(wish), need_of_(need_of), world_(world), folder_(folder) {
  if (wish.need) need_ = {*wish.need, "device.min_gpu_memory_mb"};
}

Result<TakenDevice> DeviceSearch::run(const MeantDevices& first_look) {
  candidates_ = first_look;
  if (auto found = attempt()) return *std::move(found);
  if (!wish_.wait || is_hopeless()) return in_vain(/*has_waited=*/false);
  return wait();
}

/// The best that is left after those who wait longer have had their choice.
std::optional<DeviceSearch::Held> DeviceSearch::pick() {
  const QueueTurn turn(folder_);
  taken_.clear();
  std::vector<Held> free;
  for (DeviceFacts& device : ranked(candidates_)) {
    auto lock = wish_.index() && device.uuid == candidates_.first_choice ? DeviceLock::share(folder_, device.uuid)
                                                                         : DeviceLock::take(folder_, device.uuid);
    if (lock) free.push_back({std::move(device), *std::move(lock)});
    else taken_.push_back(device.uuid);
  }
  for (const DeviceWant& want : DeviceTicket::wants_before(folder_, ticket_ ? &*ticket_ : nullptr)) {
    const auto theirs = std::ranges::find_if(free, [&](const Held& held) {
      return has_room(held.device, want.bytes) && std::ranges::count(want.devices, held.device.uuid) > 0;
    });
    if (theirs == free.end()) continue;
    taken_.push_back(theirs->device.uuid);
    free.erase(theirs);
  }
  const auto mine =
      std::ranges::find_if(free, [&](const Held& held) { return has_room(held.device, need_ ? need_->bytes : 0); });
  if (mine == free.end()) return std::nullopt;
  return std::move(*mine);
}

/// nullopt: nothing is to be had now.
std::optional<Result<TakenDevice>> DeviceSearch::attempt() {
  auto held = pick();
  if (!held) return std::nullopt;
  const bool was_known = need_.has_value();
  auto found = check_need(*std::move(held));
  return found || was_known ? std::move(found) : attempt();  // another may have the room
}

/// Finds out what is needed where that is not known. nullopt: `held` has no room for it.
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
  const auto length = [](std::chrono::duration<double> seconds) { return std::chrono::ceil<Clock::duration>(seconds); };
  const auto start = world_.now(), deadline = start + length(wish_.timeout);
  world_.say("device: waiting for a GPU" + (need_ ? " with " + bytes_text(need_->bytes) + " free" : std::string()) +
             ", at most " + duration_text(wish_.timeout.count()));
  say_who_holds();
  std::optional<Held> seen;  // with room at the look before
  for (auto now = world_.now(); now < deadline; now = world_.now()) {
    if (const auto signal = world_.sleep(std::min(length(wish_.interval), deadline - now))) {
      const std::chrono::duration<double> waited = world_.now() - start;
      return stopped_by(*signal, "after waiting " + duration_text(waited.count()) + " for a GPU");
    }
    if (Diagnostics errors = look_again(); !errors.empty()) return errors;
    const bool is_last = world_.now() >= deadline;
    if (seen) {
      const auto again = std::ranges::find(candidates_.devices, seen->device.uuid, &DeviceFacts::uuid);
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

/// Errors where no device is left that could be waited for.
Diagnostics DeviceSearch::look_again() {
  const DeviceReading reading = world_.source.read();
  problems_ = reading.problems;
  const auto visible = visible_devices(reading, world_.variables);
  if (!visible) return visible.errors();
  auto found = candidates(wish_, *visible);
  if (!found) return found.errors();
  if (found->devices.empty()) {
    Diagnostic gone{ErrorCode::kDeviceUnavailable,
                    {},
                    "/device/select",
                    "the GPUs that the run waited for have gone",
                    "`retort devices` shows what is left"};
    if (!reading.why_none.empty()) gone.message += ": " + reading.why_none;
    for (const std::string& problem : problems_) gone.notes.push_back({{}, problem});
    return {gone};
  }
  candidates_ = *std::move(found);
  return {};
}

void DeviceSearch::say_who_holds() {
  std::string who;  // without numbers of bytes, which change all the time
  for (const DeviceFacts& device : candidates_.devices) {
    who += device.uuid + (std::ranges::count(taken_, device.uuid) ? "*" : "");
    for (const DeviceHolder& holder : device.holders) who += ' ' + std::to_string(holder.pid);
  }
  if (who == said_) return;
  said_ = who;
  for (const DeviceFacts& device : candidates_.devices) {
    const bool is_taken = std::ranges::count(taken_, device.uuid) > 0;
    world_.say("  " + device_text(device) + ": " + state_text(device) +
               (is_taken ? "; another run of yours has it" : ""));
  }
}

/// Would none of them ever have room?
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
  const bool is_named = wish_.index() && held.device.uuid == candidates_.first_choice;
  const bool is_preferred = !is_named && held.device.uuid == candidates_.first_choice;
  TakenDevice taken{.select = is_named ? wish_.select : "cuda:0",
                    .device = std::move(held.device),
                    .is_only_visible = !is_named,
                    .lock = std::move(held.lock)};
  taken.why = is_named                          ? "the recipe names it"
              : is_preferred                    ? "the run was on it before"
              : !wish_.preferred.empty()        ? "the GPU that the run was on before is not to be had"
              : candidates_.devices.size() == 1 ? "it is the only one"
              : taken_.empty() && need_->bytes == 0
                  ? "it has the most free memory"
                  : "of those that have room and are not taken it has the most free memory";
  world_.say("device: " + device_text(*taken.device) + ", " + state_text(*taken.device) + "; " +
             (need_->bytes > 0 ? bytes_text(need_->bytes) + " needed (" + need_->from + "); " : "") + taken.why);
  return taken;
}

}  // namespace runner
