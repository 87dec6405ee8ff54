#pragma once

#include <cstddef>
#include <map>

namespace stand_in {

/// The addresses of one GPU's memory. The memory is mapped twice: at the addresses that tensors
/// have, which host code can neither read nor write, and at other addresses for kernels.
///
/// If host code touches memory of a GPU, that is reported (faults.h), and the access succeeds.
class AddressSpace {
 public:
  /// Reserves addresses; memory is allocated when it is first written. Lives until the process
  /// ends.
  explicit AddressSpace(std::size_t bytes);
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  bool contains(const void* address) const;
  /// Returns where kernels find the memory at `address`; null for null.
  void* for_kernels(const void* address) const;

  /// Returns the beginning of `bytes` unused bytes, whole pages; null if there are none.
  void* take(std::size_t bytes);
  /// Gives back what take() returned. Its memory is returned to the system.
  void give_back(void* begin, std::size_t bytes);

 private:
  int file_ = -1;
  std::size_t bytes_ = 0;
  char *of_tensors_ = nullptr, *of_kernels_ = nullptr;
  std::map<char*, std::size_t> unused_;  // no two touch
};

/// Makes memory that host code has touched unreadable again. Returns the number of touched pages
/// since the last call.
int close_touched_pages();

}  // namespace stand_in
