{{/* The name of the secret that has the token; empty if clients need none. */}}
{{- define "sockstamp.tokenSecret" -}}
{{- if .Values.token.enabled }}{{ .Values.token.secret | default (printf "%s-token" .Release.Name) }}{{ end }}
{{- end }}
