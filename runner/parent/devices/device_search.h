#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/devices/take_device.h"
#include "runner/shared/disk/folder_lock.h"

namespace runner {

/// What a run waits for: any of `devices` with `bytes` free.
struct DeviceWant {
  std::int64_t bytes = 0;
  std::vector<std::string> devices = {};  ///< UUIDs
  bool operator==(const DeviceWant&) const = default;
};

/// A place in the queue for a device, held for the object's lifetime. Runs that join the queue
/// later leave the wanted device to this run, so that no run waits forever while others come and
/// go. The place is a locked file in the LockFolder. A killed process's file does not count, and
/// the next process to read the queue removes it.
class DeviceTicket {
 public:
  /// Joins the end of the queue. If the file cannot be created, the run has no place in the queue
  /// and other runs do not wait for it.
  DeviceTicket(const LockFolder& folder, const DeviceWant& want);
  DeviceTicket(const DeviceTicket&) = delete;
  DeviceTicket& operator=(const DeviceTicket&) = delete;
  ~DeviceTicket();

  /// Changes what the run wants; its place in the queue is kept.
  void change(const DeviceWant& want);

  /// Returns what the runs before `ticket` in the queue want, in order; if null, what all runs in
  /// the queue want.
  static std::vector<DeviceWant> wants_before(const LockFolder& folder, const DeviceTicket* ticket);

 private:
  const LockFolder& folder_;
  std::string name_;  // empty: no place in the queue
  Descriptor file_;
};

/// Looks for a free device and may wait for one: the part of take_device() that chooses among
/// devices. All arguments are borrowed.
class DeviceSearch {
 public:
  DeviceSearch(const DeviceRequest& request, const NeedOf& need_of, const DeviceWorld& world,
               const LockFolder& folder);

  /// Checks once, then waits if the request allows it. kDeviceUnavailable, with a note on each
  /// device, if no device could be taken.
  Result<TakenDevice> run(const MeantDevices& first_look);

 private:
  /// A device that has room and that no other run holds.
  struct Held {
    DeviceFacts device;
    DeviceLock lock;
  };

  std::optional<Held> pick();
  std::optional<Result<TakenDevice>> attempt();
  std::optional<Result<TakenDevice>> check_need(Held held);
  Result<TakenDevice> wait();
  Diagnostics look_again();
  void say_who_holds();
  bool is_hopeless() const;
  Diagnostic in_vain(bool has_waited) const;
  DeviceWant want() const;
  TakenDevice taken(Held held) const;

  const DeviceRequest& request_;
  const NeedOf& need_of_;
  const DeviceWorld& world_;
  const LockFolder& folder_;
  std::optional<DeviceNeed> need_;  // nullopt: not known yet
  MeantDevices candidates_;         // as of the last check
  // UUIDs of devices that other runs held at the last attempt.
  std::vector<std::string> taken_ = {};
  std::vector<std::string> problems_ = {};
  std::optional<DeviceTicket> ticket_;
  std::string said_ = {};  // device holders as last reported to the user
};

}  // namespace runner
