#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace runner {

/// The SHA-256 digest of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();
  void update(std::string_view bytes);
  /// 64 hexadecimal digits; to be asked once, last.
  std::string digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The SHA-256 digest of some bytes, as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace runner
