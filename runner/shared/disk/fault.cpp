#include "runner/shared/disk/fault.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <stdexcept>
#include <string>
#include <utility>

namespace runner {
namespace {

using FaultPoint = Fault::Point;
using Action = Fault::Action;

constexpr std::pair<std::string_view, FaultPoint> kPoints[] = {
    {"create", FaultPoint::kCreate},    {"write", FaultPoint::kWrite},
    {"sync", FaultPoint::kSync},        {"rename", FaultPoint::kRename},
    {"folder", FaultPoint::kFolder},    {"remove", FaultPoint::kRemove},
    {"step", FaultPoint::kStep},        {"event", FaultPoint::kEvent},
    {"alloc", FaultPoint::kAllocation}, {"any", FaultPoint::kAny}};
constexpr std::pair<std::string_view, Action> kFaultActions[] = {{"kill", Action::kKill},
                                                                 {"kill_both", Action::kKillBoth},
                                                                 {"fail", Action::kFail},
                                                                 {"lose", Action::kLose},
                                                                 {"full", Action::kFull}};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw std::invalid_argument("RETORT_FAULT '" + std::string(text) + "': " + why);
}

/// Returns the text before the next colon and leaves the text after it in `rest`.
std::string_view word(std::string_view& rest) {
  const std::size_t colon = rest.find(':');
  const std::string_view found = rest.substr(0, colon);
  rest.remove_prefix(colon == rest.npos ? rest.size() : colon + 1);
  return found;
}

template <typename Value, std::size_t size>
Value named(const std::pair<std::string_view, Value> (&names)[size], std::string_view name,
            std::string_view text) {
  std::string allowed;
  for (const auto& [known, value] : names) {
    if (known == name) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(known);
  }
  refuse(text, "'" + std::string(name) + "' is not one of " + allowed);
}

[[noreturn]] void end_program(Action action) {
  if (action == Action::kKillBoth) kill(getppid(), SIGKILL);
  std::raise(SIGKILL);
  std::abort();
}

bool kills(Action action) { return action == Action::kKill || action == Action::kKillBoth; }

}  // namespace

Fault fault_from(std::string_view text) {
  std::string_view rest = text;
  Fault fault{.point = named(kPoints, word(rest), text)};
  const std::string_view count = word(rest);
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), fault.count);
  if (error != std::errc() || end != count.data() + count.size() || fault.count < 1)
    refuse(text, "a call number of at least 1 must follow the first colon");
  if (!rest.empty()) fault.action = named(kFaultActions, rest, text);
  if (fault.action == Action::kLose && fault.point != FaultPoint::kStep)
    refuse(text, "only a step can lose its GPU");
  if (fault.point == FaultPoint::kAllocation && fault.action != Action::kFail)
    refuse(text, "an allocation can only fail");
  return fault;
}

std::optional<Fault> fault_for(std::string_view program, std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return fault_from(text);
  const Fault fault = fault_from(text.substr(slash + 1));  // a malformed fault is an error in every
                                                           // program
  return text.substr(0, slash) == program ? std::optional(fault) : std::nullopt;
}

bool FaultyStorage::strikes(Fault::Point point) {
  if (fault_.point != FaultPoint::kAny && fault_.point != point) return false;
  return ++counted_ == fault_.count;
}

/// True, with errno set, if the call at `point` must fail.
bool FaultyStorage::fails(Fault::Point point) {
  const bool now = strikes(point);
  if (now && kills(fault_.action)) end_program(fault_.action);
  if (now && fault_.action == Action::kFail) {
    errno = EIO;
    return true;
  }
  is_full_ = is_full_ || now;
  const bool needs_room =
      point == FaultPoint::kCreate || point == FaultPoint::kWrite || point == FaultPoint::kFolder;
  if (!is_full_ || !(now || needs_room)) return false;
  errno = ENOSPC;
  return true;
}

std::optional<Fault::Action> FaultyStorage::reach(Fault::Point point) {
  if (fault_.action == Action::kLose)
    return strikes(point) ? std::optional(Action::kLose) : std::nullopt;
  return fails(point) && fault_.action == Action::kFail ? std::optional(Action::kFail)
                                                        : std::nullopt;
}

int FaultyStorage::create(const std::filesystem::path& path) {
  return fails(FaultPoint::kCreate) ? -1 : under_.create(path);
}

ssize_t FaultyStorage::write(int file, const char* data, std::size_t size) {
  if (is_full_) {
    errno = ENOSPC;
    return -1;
  }
  if (!strikes(FaultPoint::kWrite)) return under_.write(file, data, size);
  if (fault_.action == Action::kFail) {
    errno = EIO;
    return -1;
  }
  const ssize_t half = under_.write(file, data, size / 2);
  if (kills(fault_.action)) end_program(fault_.action);
  is_full_ = true;
  return half;
}

int FaultyStorage::sync(int file) { return fails(FaultPoint::kSync) ? -1 : under_.sync(file); }

int FaultyStorage::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  return fails(FaultPoint::kRename) ? -1 : under_.rename(from, to);
}

int FaultyStorage::make_folder(const std::filesystem::path& path) {
  return fails(FaultPoint::kFolder) ? -1 : under_.make_folder(path);
}

int FaultyStorage::remove(const std::filesystem::path& path) {
  return fails(FaultPoint::kRemove) ? -1 : under_.remove(path);
}

std::optional<std::uint64_t> FaultyStorage::free_bytes(const std::filesystem::path& path) {
  return is_full_ ? 0 : under_.free_bytes(path);
}

}  // namespace runner
