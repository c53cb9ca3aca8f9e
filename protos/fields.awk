# fields.awk - the field numbers of a .proto file, as a C header: for code that reads or writes the
# wire format by hand.  One constant a field: MESSAGE__FIELD, of a nested message OUTER__INNER__FIELD;
# before it PACKAGE__ where the package is not `pb`.  Values of enums are in the .pb-c.h.
# One declaration a line, each closing brace on a line of its own.

function upper(name)
{
	out = ""
	for (i = 1; i <= length(name); i++) {
		c = substr(name, i, 1)
		if (i > 1 && c ~ /[A-Z]/ &&
		    (substr(name, i - 1, 1) ~ /[a-z0-9]/ || substr(name, i + 1, 1) ~ /[a-z]/))
			out = out "_"
		out = out c
	}
	return toupper(out)
}

BEGIN { depth = 0 }

{ sub(/\/\/.*/, "") }
/^[ \t]*$/ { next }

/^package / {
	sub(/;.*/, "", $2)
	package = $2 == "pb" ? "" : upper($2) "__"
	next
}
/^[ \t]*(message|enum|oneof) / {
	kind[++depth] = $1
	# The fields of a oneof are fields of its message.
	prefix[depth] = $1 == "oneof" ? prefix[depth - 1] : prefix[depth - 1] upper($2) "__"
	if (depth == 1 && $1 == "message")
		prefix[depth] = package prefix[depth]
	next
}
/^[ \t]*}/ {
	depth--
	next
}
depth && kind[depth] != "enum" && /= *[0-9]+/ {
	number = name = $0
	sub(/ *=.*/, "", name)
	sub(/.*[ \t]/, "", name)
	sub(/^[^=]*= */, "", number)
	sub(/[^0-9].*/, "", number)
	body = body "\t" prefix[depth] toupper(name) " = " number ",\n"
}
END {
	printf "/* Made from %s by protos/fields.awk. */\n#pragma once\n\nenum {\n%s};\n", FILENAME, body
}
