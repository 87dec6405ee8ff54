#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/shared/disk/lock_folder.h"

namespace runner {

/// What a run waits for: any of `devices` once it has `bytes` free.
struct DeviceWant {
  std::int64_t bytes = 0;
  std::vector<std::string> devices = {};  ///< UUIDs
  bool operator==(const DeviceWant&) const = default;
};

/// A place in the queue of those that wait for a device, as long as it lives: those that came later leave to it what it
/// wants, so that nobody waits for ever while others come and go. It is a locked file of the LockFolder; one whose
/// process was killed counts no longer, and is removed by the next who looks.
class DeviceTicket {
 public:
  /// Joins the queue's end. Where the folder cannot hold the file there is no place, and nobody is kept waiting for it.
  DeviceTicket(const LockFolder& folder, const DeviceWant& want);
  DeviceTicket(const DeviceTicket&) = delete;
  DeviceTicket& operator=(const DeviceTicket&) = delete;
  ~DeviceTicket();

  /// It wants something else from now on, and keeps its place.
  void change(const DeviceWant& want);

  /// What those before `ticket` in the queue want, first come first; null: what all in it want.
  static std::vector<DeviceWant> wants_before(const LockFolder& folder, const DeviceTicket* ticket);

 private:
  const LockFolder& folder_;
  std::string name_;  // empty: it has no place
  Descriptor file_;
};

}  // namespace runner
