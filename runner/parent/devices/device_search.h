#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/devices/take_device.h"
#include "runner/shared/disk/folder_lock.h"

namespace runner {

/// What a run waits for: any of `devices` once it has `bytes` free.
struct DeviceWant {
  std::int64_t bytes = 0;
  std::vector<std::string> devices = {};  ///< UUIDs
  bool operator==(const DeviceWant&) const = default;
};

/// A place in the queue of those that wait for a device, as long as it lives: those that came later
/// leave to it what it wants, so that nobody waits for ever while others come and go. It is a
/// locked file of the LockFolder; one whose process was killed counts no longer, and is removed by
/// the next who looks.
class DeviceTicket {
 public:
  /// Joins the queue's end. Where the folder cannot hold the file there is no place, and nobody is
  /// kept waiting for it.
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

/// A search for a free device, which may last: take_device() where there is a choice to make. All
/// is borrowed.
class DeviceSearch {
 public:
  DeviceSearch(const DeviceWish& wish, const NeedOf& need_of, const DeviceWorld& world,
               const LockFolder& folder);

  /// Looks once and then, where the wish says so, waits. kDeviceUnavailable where it was in vain,
  /// with what each device lacks.
  Result<TakenDevice> run(const MeantDevices& first_look);

 private:
  /// A device with room that no other run has.
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

  const DeviceWish& wish_;
  const NeedOf& need_of_;
  const DeviceWorld& world_;
  const LockFolder& folder_;
  std::optional<DeviceNeed> need_;       // nullopt: not known yet
  MeantDevices candidates_;              // as of the last look
  std::vector<std::string> taken_ = {};  // UUIDs of those that other runs had at the last attempt
  std::vector<std::string> problems_ = {};
  std::optional<DeviceTicket> ticket_;
  std::string said_ = {};  // who holds the devices, as the user was told last
};

}  // namespace runner
