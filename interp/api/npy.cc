// NumPy's .npy files: a magic, a version, a header that is a Python dict, then the elements.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "interp/api/eager.h"
#include "interp/cpu/strided.h"
#include "runtime/file.h"
#include "tessera/ops.h"

namespace tessera {

using rt::Ref;
using rt::TensorImpl;

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Descr {
  DType dtype;
  std::string_view text;  // without the byte order
};
constexpr Descr kDescrs[] = {{DType::f64, "f8"}, {DType::f32, "f4"}, {DType::f16, "f2"}, {DType::i64, "i8"},
                             {DType::i32, "i4"}, {DType::i8, "i1"},  {DType::u8, "u1"},  {DType::boolean, "b1"}};

struct Header {
  DType dtype = DType::f32;
  bool big_endian = false;
  bool fortran = false;
  Dims dims;
};

// Reads the dict {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } in any order and spacing.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  absl::StatusOr<Header> Run() {
    bool descr = false, order = false, shape = false;
    TSR_RETURN_IF_ERROR(Expect('{'));
    while (!Accept('}')) {
      TSR_ASSIGN_OR_RETURN(std::string_view key, String());
      TSR_RETURN_IF_ERROR(Expect(':'));
      if (key == "descr") {
        TSR_RETURN_IF_ERROR(ParseDescr());
        descr = true;
      } else if (key == "fortran_order") {
        TSR_RETURN_IF_ERROR(ParseOrder());
        order = true;
      } else if (key == "shape") {
        TSR_RETURN_IF_ERROR(ParseShape());
        shape = true;
      } else {
        return DataLoss("its header has an unknown key '", Shown(key), "'");
      }
      if (!Accept(',')) {
        TSR_RETURN_IF_ERROR(Expect('}'));
        break;
      }
    }
    Skip();
    if (!text_.empty()) return DataLoss("its header has something after the dict");
    if (!descr || !order || !shape) return DataLoss("its header lacks descr, fortran_order or shape");
    return header_;
  }

 private:
  void Skip() {
    while (!text_.empty() && absl::ascii_isspace(text_[0])) text_.remove_prefix(1);
  }
  bool Accept(char c) {
    Skip();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  absl::Status Expect(char c) {
    if (Accept(c)) return absl::OkStatus();
    return DataLoss("its header has no '", std::string(1, c), "' where one belongs");
  }
  absl::StatusOr<std::string_view> String() {
    Skip();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"'))
      return DataLoss("its header has no string where one belongs");
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return DataLoss("its header has a string without end");
    std::string_view s = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return s;
  }
  absl::Status ParseDescr() {
    Skip();
    if (!text_.empty() && text_[0] == '[') return Unsupported("it holds records, not numbers");
    TSR_ASSIGN_OR_RETURN(std::string_view s, String());
    std::string_view type = s;
    if (!type.empty() && std::string_view("<>|=").find(type[0]) != std::string_view::npos) type.remove_prefix(1);
    for (const Descr& d : kDescrs) {
      if (d.text != type) continue;
      header_.dtype = d.dtype;
      header_.big_endian = s[0] == '>' && SizeOf(d.dtype) > 1;
      return absl::OkStatus();
    }
    return Unsupported("its dtype is '", Shown(s), "'; f8 f4 f2 i8 i4 i1 u1 and b1 can be read");
  }
  absl::Status ParseOrder() {
    Skip();
    for (auto [word, value] : {std::pair<std::string_view, bool>("True", true), {"False", false}}) {
      if (text_.substr(0, word.size()) != word) continue;
      text_.remove_prefix(word.size());
      header_.fortran = value;
      return absl::OkStatus();
    }
    return DataLoss("its fortran_order is neither True nor False");
  }
  absl::Status ParseShape() {
    TSR_RETURN_IF_ERROR(Expect('('));
    std::vector<int64_t> dims;
    while (!Accept(')')) {
      Skip();
      int64_t d = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), d);
      if (error != std::errc() || d < 0) return DataLoss("its shape has something that is no dim");
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      dims.push_back(d);
      if (dims.size() > kMaxRank) return Unsupported("its rank is above ", kMaxRank);
      if (!Accept(',')) {
        TSR_RETURN_IF_ERROR(Expect(')'));
        break;
      }
    }
    header_.dims = Dims(std::move(dims));
    return absl::OkStatus();
  }

  // For messages: a damaged file may hold any bytes, and many of them.
  static std::string Shown(std::string_view s) {
    return absl::CHexEscape(absl::string_view(s.data(), std::min<size_t>(s.size(), 40)));
  }

  std::string_view text_;
  Header header_;
};

absl::StatusOr<Ref<TensorImpl>> ParseBytes(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < 10) return DataLoss("it does not begin like one");
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) return Unsupported("its version is ", version, "; 1 to 3 can be read");
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t begin = 8 + length_bytes;
  if (bytes.size() < begin) return DataLoss("it ends within its header");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  if (length > bytes.size() - begin) return DataLoss("it ends within its header");
  TSR_ASSIGN_OR_RETURN(const Header header, HeaderParser(bytes.substr(begin, length)).Run());

  TensorType type;
  type.dtype = header.dtype;
  type.rank = static_cast<uint8_t>(header.dims.size());
  int64_t size = 1;
  for (int i = 0; i < type.rank; ++i) {
    // In Fortran order the file holds the transpose.
    type.dims[i] = header.dims[header.fortran ? static_cast<size_t>(type.rank - 1 - i) : static_cast<size_t>(i)];
    if (__builtin_mul_overflow(size, type.dims[i], &size)) return DataLoss("its shape is too large");
  }
  std::string_view data = bytes.substr(begin + length);
  const size_t width = SizeOf(type.dtype);
  if (static_cast<size_t>(size) > data.size() / width || static_cast<size_t>(size) * width != data.size()) {
    return DataLoss("it has ", data.size(), " bytes of elements; ", ToString(type), " needs ",
                    static_cast<double>(size) * width);
  }
  TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> x, TensorImpl::Make(rt::Cpu(), type));
  if (!data.empty()) std::memcpy(x->data, data.data(), data.size());
  char* p = x->as<char>();
  if (header.big_endian) {
    for (int64_t i = 0; i < size; ++i, p += width) std::reverse(p, p + width);
  }
  if (type.dtype == DType::boolean) {
    for (int64_t i = 0; i < size; ++i) x->as<uint8_t>()[i] = x->as<uint8_t>()[i] != 0;
  }
  if (!header.fortran || type.rank < 2) return x;
  int perm[kMaxRank];
  for (int i = 0; i < type.rank; ++i) perm[i] = type.rank - 1 - i;
  const View transposed = cpu::Permuted(*x, perm);
  TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> y, TensorImpl::Make(rt::Cpu(), transposed));
  cpu::CopyStrided(*y, transposed);
  return y;
}

}  // namespace

Status save_npy(const Tensor& x, const std::string& path) {
  if (!x.defined()) return ToPublic(InvalidArgument("save_npy: the Tensor handle is empty"));
  const Descr* descr = nullptr;
  for (const Descr& d : kDescrs)
    if (d.dtype == x.dtype()) descr = &d;
  if (descr == nullptr) {
    return ToPublic(Unsupported("save_npy: the format has no ", std::string(Name(x.dtype())), "; cast to f32 first"));
  }
  if (!x.impl()->device().executes()) {
    return ToPublic(Unsupported("save_npy: device ", std::string(x.device().name()), " holds no values"));
  }
  std::string shape;
  for (int64_t d : x.dims()) absl::StrAppend(&shape, d, ", ");
  if (x.rank() > 1) shape.resize(shape.size() - 2);
  if (x.rank() == 1) shape.pop_back();
  std::string header = absl::StrCat("{'descr': '", SizeOf(x.dtype()) == 1 ? "|" : "<", std::string(descr->text),
                                    "', 'fortran_order': False, 'shape': (", shape, "), }");
  // Elements begin at a multiple of 64.
  header.append(63 - (kMagic.size() + 4 + header.size()) % 64, ' ');
  header += '\n';
  const std::string prefix = absl::StrCat(std::string(kMagic), std::string("\x01\x00", 2),
                                          std::string(1, static_cast<char>(header.size() & 0xff)),
                                          std::string(1, static_cast<char>(header.size() >> 8)));
  auto values = interp::OnHost(*x.impl());
  auto contiguous = values.ok() ? interp::Contiguous(**values) : values;
  if (!contiguous.ok()) return ToPublic(contiguous.status());
  const std::string_view data((*contiguous)->as<char>(), static_cast<size_t>(x.size()) * SizeOf(x.dtype()));
  return ToPublic(rt::WriteFile(path, {prefix, header, data}));
}

Result<Tensor> parse_npy(std::span<const std::byte> bytes) {
  auto x = ParseBytes(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (!x.ok()) return ToPublic(Annotate(x.status(), "not a readable .npy: "));
  return api::OnDefaultDevice(*std::move(x));
}

Result<Tensor> load_npy(const std::string& path) {
  auto bytes = rt::ReadFile(path);
  if (!bytes.ok()) return ToPublic(bytes.status());
  auto x = ParseBytes(*bytes);
  if (!x.ok()) return ToPublic(Annotate(x.status(), absl::StrCat(path, " is not a readable .npy: ")));
  return api::OnDefaultDevice(*std::move(x));
}

}  // namespace tessera
