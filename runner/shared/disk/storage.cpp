#include "runner/shared/disk/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "runner/shared/disk/fault.h"

namespace runner {
namespace {

class DiskStorage final : public Storage {
 public:
  int create(const std::filesystem::path& path) override {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  ssize_t write(int file, const char* data, std::size_t size) override {
    return ::write(file, data, size);
  }
  int sync(int file) override { return ::fsync(file); }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return std::rename(from.c_str(), to.c_str());
  }
  int make_folder(const std::filesystem::path& path) override {
    return ::mkdir(path.c_str(), 0777);
  }
  int remove(const std::filesystem::path& path) override { return std::remove(path.c_str()); }
  std::optional<std::uint64_t> free_bytes(const std::filesystem::path& path) override {
    struct statvfs status = {};
    if (::statvfs(path.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
    return std::uint64_t{status.f_bavail} * status.f_frsize;
  }
};

}  // namespace

#ifdef RETORT_FAULTS
namespace {

std::optional<Fault> wanted_fault() {
  const char* const text = std::getenv("RETORT_FAULT");
  if (!text) return std::nullopt;
  std::string program = program_invocation_short_name;
  if (const char* const rank = std::getenv("RETORT_RANK")) program += "-" + std::string(rank);
  return fault_for(program, text);
}

FaultyStorage* faulty_disk(Storage& disk) {
  static const auto faulty = [&]() -> std::unique_ptr<FaultyStorage> {
    const auto fault = wanted_fault();
    return fault ? std::make_unique<FaultyStorage>(disk, *fault) : nullptr;
  }();
  return faulty.get();
}

}  // namespace
#endif

Storage& disk() {
  static DiskStorage disk;
#ifdef RETORT_FAULTS
  if (FaultyStorage* faulty = faulty_disk(disk)) return *faulty;
#endif
  return disk;
}

std::optional<Fault::Action> reach([[maybe_unused]] Milestone milestone) {
#ifdef RETORT_FAULTS
  if (auto* faulty = dynamic_cast<FaultyStorage*>(&disk()))
    return faulty->reach(milestone == Milestone::kStep ? Fault::Point::kStep
                                                       : Fault::Point::kEvent);
#endif
  return std::nullopt;
}

std::int64_t allocation_to_refuse() {
#ifdef RETORT_FAULTS
  if (const auto fault = wanted_fault(); fault && fault->point == Fault::Point::kAllocation)
    return fault->count;
#endif
  return 0;
}

}  // namespace runner
