#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/devices/device_ticket.h"
#include "runner/parent/devices/take_device.h"

namespace runner {

/// A search for a free device, which may last: take_device() where there is a choice to make. All is borrowed.
class DeviceSearch {
 public:
  DeviceSearch(const DeviceWish& wish, const NeedOf& need_of, const DeviceWorld& world, const LockFolder& folder);

  /// Looks once and then, where the wish says so, waits. kDeviceUnavailable where it was in vain, with what each
  /// device lacks.
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
