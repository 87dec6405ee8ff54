#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace runner {

/// SHA-256 is by which we know files again; MD5 and SHA-1 are sums by which others publish theirs,
/// and find damage, not malice.
enum class DigestKind { kMd5, kSha1, kSha256 };

/// "MD5", "SHA-1", "SHA-256".
std::string_view name(DigestKind kind);

/// The digest of bytes that come piece by piece.
class Digest {
 public:
  explicit Digest(DigestKind kind = DigestKind::kSha256);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();
  void update(std::string_view bytes);
  /// The bytes of a regular file; `step` is called a mebibyte, with the bytes so far, and may
  /// throw. 0, or errno where the file cannot be read to its end.
  [[nodiscard]] int update_from(const std::filesystem::path& file,
                                const std::function<void(std::int64_t bytes)>& step = {});
  /// Lower-case hexadecimal digits; to be asked once, last.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The SHA-256 digest of some bytes, as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace runner
