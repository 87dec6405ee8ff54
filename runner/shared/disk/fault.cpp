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
using Deed = Fault::Deed;

constexpr std::pair<std::string_view, FaultPoint> kPoints[] = {
    {"create", FaultPoint::kCreate},    {"write", FaultPoint::kWrite},
    {"sync", FaultPoint::kSync},        {"rename", FaultPoint::kRename},
    {"folder", FaultPoint::kFolder},    {"remove", FaultPoint::kRemove},
    {"step", FaultPoint::kStep},        {"event", FaultPoint::kEvent},
    {"alloc", FaultPoint::kAllocation}, {"any", FaultPoint::kAny}};
constexpr std::pair<std::string_view, Deed> kDeeds[] = {{"kill", Deed::kKill},
                                                        {"kill_both", Deed::kKillBoth},
                                                        {"fail", Deed::kFail},
                                                        {"lose", Deed::kLose},
                                                        {"full", Deed::kFull}};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw std::invalid_argument("RETORT_FAULT '" + std::string(text) + "': " + why);
}

/// What comes before the next colon; `rest` is left with what comes after it.
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

[[noreturn]] void end_program(Deed deed) {
  if (deed == Deed::kKillBoth) kill(getppid(), SIGKILL);
  std::raise(SIGKILL);
  std::abort();
}

bool kills(Deed deed) { return deed == Deed::kKill || deed == Deed::kKillBoth; }

}  // namespace

Fault fault_from(std::string_view text) {
  std::string_view rest = text;
  Fault fault{.point = named(kPoints, word(rest), text)};
  const std::string_view count = word(rest);
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), fault.count);
  if (error != std::errc() || end != count.data() + count.size() || fault.count < 1)
    refuse(text, "the number of the call, from 1, must follow the first colon");
  if (!rest.empty()) fault.deed = named(kDeeds, rest, text);
  if (fault.deed == Deed::kLose && fault.point != FaultPoint::kStep)
    refuse(text, "only a step can lose its GPU");
  if (fault.point == FaultPoint::kAllocation && fault.deed != Deed::kFail)
    refuse(text, "an allocation can only fail");
  return fault;
}

std::optional<Fault> fault_for(std::string_view program, std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return fault_from(text);
  const Fault fault = fault_from(text.substr(slash + 1));  // a mistake is one for every program
  return text.substr(0, slash) == program ? std::optional(fault) : std::nullopt;
}

bool FaultyStorage::strikes(Fault::Point point) {
  if (fault_.point != FaultPoint::kAny && fault_.point != point) return false;
  return ++counted_ == fault_.count;
}

/// True, with errno set, where the call at `point` is to fail.
bool FaultyStorage::fails(Fault::Point point) {
  const bool now = strikes(point);
  if (now && kills(fault_.deed)) end_program(fault_.deed);
  if (now && fault_.deed == Deed::kFail) {
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

std::optional<Fault::Deed> FaultyStorage::reach(Fault::Point point) {
  if (fault_.deed == Deed::kLose) return strikes(point) ? std::optional(Deed::kLose) : std::nullopt;
  return fails(point) && fault_.deed == Deed::kFail ? std::optional(Deed::kFail) : std::nullopt;
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
  if (fault_.deed == Deed::kFail) {
    errno = EIO;
    return -1;
  }
  const ssize_t half = under_.write(file, data, size / 2);
  if (kills(fault_.deed)) end_program(fault_.deed);
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
