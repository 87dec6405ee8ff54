#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace runner {

/// SHA-256 identifies files. MD5 and SHA-1 are used only to verify published checksums; they detect
/// corruption, not tampering.
enum class DigestKind { kMd5, kSha1, kSha256 };

/// Returns "MD5", "SHA-1" or "SHA-256".
std::string_view name(DigestKind kind);

/// Computes a digest incrementally.
class Digest {
 public:
  explicit Digest(DigestKind kind = DigestKind::kSha256);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();
  void update(std::string_view bytes);
  /// Adds the contents of a regular file. After every mebibyte, calls `step` with the number of
  /// bytes read so far; `step` may throw. Returns 0, or errno if the file cannot be read to the
  /// end.
  [[nodiscard]] int update_from(const std::filesystem::path& file,
                                const std::function<void(std::int64_t bytes)>& step = {});
  /// Returns the digest as lower-case hexadecimal digits. Must be called once, last.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the SHA-256 digest of `bytes` as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace runner
