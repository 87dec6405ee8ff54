#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace runner {

/// SHA-256 identifies files. MD5 and SHA-1 only check sums that others publish; they detect damage,
/// not malice.
enum class DigestKind { kMd5, kSha1, kSha256 };

/// "MD5", "SHA-1", "SHA-256".
std::string_view name(DigestKind kind);

/// An incremental digest.
class Digest {
 public:
  explicit Digest(DigestKind kind = DigestKind::kSha256);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();
  void update(std::string_view bytes);
  /// Reads a regular file. Calls `step` after every mebibyte with the bytes read so far; `step` may
  /// throw. Returns 0, or errno if the file cannot be read to its end.
  [[nodiscard]] int update_from(const std::filesystem::path& file,
                                const std::function<void(std::int64_t bytes)>& step = {});
  /// Lower-case hexadecimal digits. Call it once, last.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The SHA-256 digest of some bytes, as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace runner
